"""ServeApplications as the API server serves them: all that the gateway's agent needs to watch them."""

from daybreak.api.schema.resource import GROUP, VERSION, Resource

KIND = "ServeApplication"
SERVE_APPLICATIONS = Resource(GROUP, VERSION, KIND, "serveapplications")
