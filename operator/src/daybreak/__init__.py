"""Daybreak, an operator that runs an LLMService as a model on KubeRay."""
