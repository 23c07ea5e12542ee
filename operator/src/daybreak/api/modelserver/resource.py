"""API resource of ModelServer: everything that the gateway's agent needs to watch these objects."""

from daybreak.api.schema.resource import GROUP, VERSION, Resource

KIND = "ModelServer"
MODEL_SERVERS = Resource(GROUP, VERSION, KIND, "modelservers")
