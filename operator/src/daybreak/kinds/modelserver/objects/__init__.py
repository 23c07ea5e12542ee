"""Objects of a ModelServer, each from a pure function."""
