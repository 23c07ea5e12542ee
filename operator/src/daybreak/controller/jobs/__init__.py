"""Base of kinds that become one job: observe, decide, plan and report.

A kind adds its own parts as a `reconciler.JobKind`; the rest is shared.
"""
