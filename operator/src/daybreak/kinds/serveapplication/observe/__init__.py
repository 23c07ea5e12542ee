"""What is seen of a ServeApplication."""
