"""Observation of an LLMBenchmark."""
