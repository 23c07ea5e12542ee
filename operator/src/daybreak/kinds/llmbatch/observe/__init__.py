"""What is seen of a batch."""
