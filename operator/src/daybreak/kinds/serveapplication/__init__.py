"""Kind ServeApplication: the user's Ray Serve code behind the gateway."""
