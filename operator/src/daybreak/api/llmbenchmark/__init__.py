"""The kind LLMBenchmark: the best settings of an engine, found under load."""
