"""Which settings to try next."""
