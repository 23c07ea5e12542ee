"""Probes of models, run outside the queue's workers."""
