"""LLMRoute kind: names that clients send as `model`, shared by models of several services."""
