"""The kind LLMBatch: observed, decided, planned, applied, and what its status says."""
