"""Client of the API server; no other package sends requests to it."""
