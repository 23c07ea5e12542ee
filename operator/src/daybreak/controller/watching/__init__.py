"""Triggers of reconciles across all objects of a kind: nodes, fit and the accelerator queue."""
