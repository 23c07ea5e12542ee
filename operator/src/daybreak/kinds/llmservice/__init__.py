"""Kind LLMService: one reconcile observes, decides, plans, applies and writes the status."""
