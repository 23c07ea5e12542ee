"""What the status says."""
