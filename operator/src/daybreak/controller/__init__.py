"""The work queue, events, health and metrics, independent of any kind."""
