"""Comparison of idle times by replay of arrivals."""
