"""Measurements with goals, written to `bench/results/*.json`."""
