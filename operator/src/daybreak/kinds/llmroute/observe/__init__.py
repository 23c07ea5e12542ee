"""What is seen of the LLMRoutes of a namespace."""
