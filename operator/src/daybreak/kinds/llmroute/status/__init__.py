"""Status of a route."""
