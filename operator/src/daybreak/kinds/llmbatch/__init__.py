"""Kind LLMBatch: observation, decision, objects and status."""
