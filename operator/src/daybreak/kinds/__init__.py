"""Kinds of custom resources, one folder each. No kind imports another."""
