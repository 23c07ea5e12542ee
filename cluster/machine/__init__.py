"""The machine: what it must have, what the cluster changes on it, and what is left."""
