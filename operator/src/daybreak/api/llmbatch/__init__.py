"""LLMBatch kind: reads a table of prompts and writes a table of answers."""
