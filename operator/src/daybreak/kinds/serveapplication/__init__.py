"""The kind ServeApplication: Ray Serve code of one's own behind the gateway."""
