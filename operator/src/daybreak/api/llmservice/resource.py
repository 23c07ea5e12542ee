"""LLMServices as the API server serves them: all that the gateway's agent needs to watch them."""

from daybreak.api.schema.resource import GROUP, VERSION, Resource

KIND = "LLMService"
LLM_SERVICES = Resource(GROUP, VERSION, KIND, "llmservices")
