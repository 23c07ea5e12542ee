"""Status of a ServeApplication."""
