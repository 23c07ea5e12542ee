"""Request fields that the gateway allows or rejects."""
