"""From what is seen of an LLMService to what is written: the queue, and one reconcile."""
