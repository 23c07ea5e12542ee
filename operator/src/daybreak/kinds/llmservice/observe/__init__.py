"""Observation of an LLMService: objects, answers of models, reports of adapters."""
