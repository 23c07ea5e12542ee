"""The base of kinds that become one job: how an object of one is observed, decided on, planned and reported.

A kind says what is its own (`reconciler.JobKind`); all else is here, the same for each.
"""
