"""Idle times, by replay of arrivals."""
