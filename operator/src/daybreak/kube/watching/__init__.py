"""Seeing: lists and watches, and the cache of what was last seen."""
