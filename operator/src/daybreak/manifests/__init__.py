"""Kubernetes objects: their kinds, keys, owners and differences, and plans for them."""
