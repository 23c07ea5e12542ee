"""Desired configuration of HAProxy for each workload, from its object and its pods."""
