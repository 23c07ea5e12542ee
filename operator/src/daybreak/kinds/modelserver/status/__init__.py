"""Status of a ModelServer."""
