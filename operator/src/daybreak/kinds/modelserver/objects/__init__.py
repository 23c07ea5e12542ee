"""The objects of a ModelServer, each by a pure function."""
