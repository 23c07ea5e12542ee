"""ModelServers as the API server serves them: all that the gateway's agent needs to watch them."""

from daybreak.api.schema.resource import GROUP, VERSION, Resource

KIND = "ModelServer"
MODEL_SERVERS = Resource(GROUP, VERSION, KIND, "modelservers")
