"""The measurements, in the order in which they run: the last three need the cluster with Daybreak."""

NAMES = (
    "reconcile",
    "steady",
    "lag",
    "sleeping",
    "starved",
    "direct",
    "overhead",
    "waking",
    "storm",
)
