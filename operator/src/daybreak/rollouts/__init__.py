"""Rollout of a change to running pods: strategy, progress and rollback. Independent of the kind."""
