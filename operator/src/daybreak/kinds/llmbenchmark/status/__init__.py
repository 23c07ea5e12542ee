"""Status of a benchmark."""
