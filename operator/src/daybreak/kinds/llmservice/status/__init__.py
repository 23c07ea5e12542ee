"""What is said of an LLMService: conditions and the rest of its status. Pure."""
