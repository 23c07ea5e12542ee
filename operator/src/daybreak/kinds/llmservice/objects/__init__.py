"""Objects of an LLMService: pure functions from the spec to manifests."""
