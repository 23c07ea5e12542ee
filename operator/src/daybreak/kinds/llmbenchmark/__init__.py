"""Kind LLMBenchmark: observation, decision, objects and status."""
