"""kopf: what the cluster tells of LLMServices goes into the cache and the queue, nothing more."""
