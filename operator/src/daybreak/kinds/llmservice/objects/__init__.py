"""The objects that an LLMService stands for: pure functions from the spec to manifests."""
