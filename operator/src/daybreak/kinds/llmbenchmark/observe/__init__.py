"""What is seen of an LLMBenchmark."""
