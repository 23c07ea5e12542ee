"""Objects of a ServeApplication."""
