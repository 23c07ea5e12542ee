"""Observation of a ServeApplication."""
