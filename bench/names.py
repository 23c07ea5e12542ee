"""The measurements, in the order in which they run: the last three need the cluster with Daybreak."""

NAMES = (
    "reconcile",
    "steady",
    "routes",
    "lag",
    "sleeping",
    "starved",
    "direct",
    "overhead",
    "waking",
    "storm",
)
