"""The common parts of a workload behind gates: observation, sleep decisions, conditions and status."""
