"""Kind LLMRoute: observation, decision, and the status that gateways follow."""
