"""A workload with one gate: its loop, sleep, conditions and status, whatever its kind makes of it."""
