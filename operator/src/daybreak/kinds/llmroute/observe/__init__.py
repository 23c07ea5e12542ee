"""Observation of the LLMRoutes of a namespace."""
