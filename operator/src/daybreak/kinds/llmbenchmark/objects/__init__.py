"""The objects of an LLMBenchmark."""
