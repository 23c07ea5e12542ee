"""The work queue, events, health and metrics: nothing of one kind."""
