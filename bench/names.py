"""Measurements in the order in which they run: `make bench` runs all of them, and each has a result."""

from collections.abc import Mapping

WITHOUT_CLUSTER: Mapping[str, str] = {
    "reconcile": "bench.operator.reconcile",
    "steady": "bench.gateway.steady",
    "routes": "bench.gateway.routes",
    "lag": "bench.gateway.lag",
    "sleeping": "bench.gateway.sleeping",
    "awake": "bench.gateway.awake",
    "held": "bench.gateway.held",
    "starved": "bench.operator.starved",
    "turns": "bench.operator.turns",
    "direct": "bench.ray.direct",
    "serving_v2": "bench.serving.v2",
}
"""Module of each measurement that starts what it needs, by the name of its result."""

WITH_CLUSTER: Mapping[str, str] = {
    "overhead": "bench.cluster.overhead",
    "waking": "bench.cluster.waking",
    "storm": "bench.cluster.storm",
    "turns-real": "bench.cluster.turns_real",
    "canary": "bench.cluster.canary",
}
"""Module of each measurement that needs the cluster with Daybreak, by the name of its result."""

NAMES: Mapping[str, str] = {**WITHOUT_CLUSTER, **WITH_CLUSTER}
"""Module of each measurement, by the name of its result."""
