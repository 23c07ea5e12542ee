"""Status of a batch."""
