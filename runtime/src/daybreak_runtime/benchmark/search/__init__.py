"""Search strategy for settings."""
