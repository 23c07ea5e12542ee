"""What the status of a ServeApplication says."""
