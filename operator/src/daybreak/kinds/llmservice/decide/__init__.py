"""Next action for an LLMService: pure functions of the observation and the time."""
