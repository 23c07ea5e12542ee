"""LLMRoutes as an API resource: everything that the gateway's agent needs to watch them."""

from daybreak.api.schema.resource import GROUP, VERSION, Resource

KIND = "LLMRoute"
LLM_ROUTES = Resource(GROUP, VERSION, KIND, "llmroutes")
