"""Error responses that the gateway generates itself."""
