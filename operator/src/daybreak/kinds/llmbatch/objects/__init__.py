"""Objects of an LLMBatch."""
