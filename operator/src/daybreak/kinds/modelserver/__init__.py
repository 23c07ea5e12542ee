"""Kind ModelServer: an engine in a container, behind the gateway."""
