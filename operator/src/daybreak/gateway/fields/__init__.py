"""Which fields of a request pass to the engine."""
