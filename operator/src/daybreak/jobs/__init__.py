"""Kinds that create one job: its progress, the next decision and its status. Pure."""
