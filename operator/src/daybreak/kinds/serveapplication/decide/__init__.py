"""What is decided of a ServeApplication."""
