"""Handlers of kopf, which only pass watch events of LLMServices to the cache and the queue."""
