"""Observation of a ModelServer."""
