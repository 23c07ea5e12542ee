"""Objects of an LLMBenchmark."""
