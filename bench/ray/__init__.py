"""Paths from Ray to the engine, and batches."""
