"""Observation of a batch."""
