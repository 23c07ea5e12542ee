"""What is seen of a ModelServer."""
