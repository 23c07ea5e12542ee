"""What is said of a ModelServer."""
