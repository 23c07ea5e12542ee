"""The kind LLMBatch: a table of prompts in, a table of answers out."""
