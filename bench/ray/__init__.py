"""From Ray to the engine: the ways to replicas, and batches."""
