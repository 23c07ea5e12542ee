"""Decision on a ServeApplication."""
