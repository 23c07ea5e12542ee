"""Shared API of the kinds that become one job."""
