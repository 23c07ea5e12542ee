"""LLMBenchmark kind: finds the best settings of an engine under load."""
