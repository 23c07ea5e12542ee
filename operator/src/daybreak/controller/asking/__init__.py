"""Asking models for an answer, beside the workers of the queue."""
