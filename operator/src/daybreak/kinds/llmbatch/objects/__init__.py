"""The objects of an LLMBatch."""
