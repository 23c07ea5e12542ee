"""What to do next about an LLMService: pure functions of what is seen and the time."""
