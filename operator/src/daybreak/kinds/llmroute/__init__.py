"""The kind LLMRoute: observed, decided, and what its status says, by which gateways go."""
