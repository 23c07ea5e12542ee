"""Kubernetes objects as such: their kinds, keys and owners, how two differ, and plans for them."""
