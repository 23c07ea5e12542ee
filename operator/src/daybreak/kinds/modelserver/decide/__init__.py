"""What to do about a ModelServer: pure functions of what is seen."""
