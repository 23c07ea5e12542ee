"""The measurements, in the order in which they run: the last five need the cluster with Daybreak."""

from collections.abc import Mapping

NAMES: Mapping[str, str] = {
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
    "overhead": "bench.cluster.overhead",
    "waking": "bench.cluster.waking",
    "storm": "bench.cluster.storm",
    "turns-real": "bench.cluster.turns_real",
    "canary": "bench.cluster.canary",
}
"""The module of each, by the name of its result."""
