"""Resource of LLMServices in the API server, which is all that the gateway's agent needs for its watch."""

from daybreak.api.schema.resource import GROUP, VERSION, Resource

KIND = "LLMService"
LLM_SERVICES = Resource(GROUP, VERSION, KIND, "llmservices")
