"""Kind LLMService: spec, status, and validation beyond the schema."""
