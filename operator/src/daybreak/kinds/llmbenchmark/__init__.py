"""The kind LLMBenchmark: observed, decided, planned, applied, and what its status says."""
