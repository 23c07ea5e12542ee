"""The kind LLMService: spec, status, and the checks that a schema cannot make."""
