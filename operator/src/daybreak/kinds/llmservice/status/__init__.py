"""Status of an LLMService: conditions and other fields, by pure functions."""
