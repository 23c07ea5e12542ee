"""How many worker pods each RayCluster that runs may have."""

from collections.abc import Mapping

from daybreak.api.common.unstructured import at, text
from daybreak.api.gates.gate_status import GateState, Phase
from daybreak.kinds.llmservice.objects.desired import group_bounds
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.ray.views.ray_service_view import ray_view

Bounds = Mapping[str, tuple[int, int]]
"""Fewest and most pods of each worker group, by the group's name."""


def cluster_bounds(seen: Observed) -> dict[str, Bounds]:
    """Bounds for each RayCluster that is to have them, by its name.

    A service that was changed in its sleep wakes in a second cluster, since KubeRay sends Serve's
    configuration to that one only. The first one stays as it is then: its pods would take the accelerators
    that the second one waits for, and serve nobody.
    """
    if seen.service is None:
        return {}
    asleep = seen.sleep_state.asleep if seen.gateway else None
    bounds, ray = group_bounds(seen.service, asleep), ray_view(seen.ray_service)
    state = seen.sleep_state
    waking = seen.gateway is not None and state.phase is Phase.WAKING and state.gate is GateState.CLOSED
    left_alone = ray.active if ray.upgrading and waking else None
    found = {text(at(cluster, "metadata").get("name")): bounds for cluster in seen.ray_clusters}
    return {name: wanted for name, wanted in found.items() if name != left_alone}
