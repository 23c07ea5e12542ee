"""Daybreak: an LLMService becomes a running model on KubeRay."""
