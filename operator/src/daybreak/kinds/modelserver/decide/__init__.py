"""Decision on a ModelServer: pure functions of its observation."""
