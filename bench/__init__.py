"""Measurements, each with its goals, written to bench/results/*.json."""
