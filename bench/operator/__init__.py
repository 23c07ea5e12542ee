"""Reconciles and writes of the operator, and their delays."""
