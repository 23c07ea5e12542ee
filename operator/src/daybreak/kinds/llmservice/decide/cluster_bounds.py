"""How many worker pods each RayCluster that runs may have."""

from collections import Counter

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, text
from daybreak.api.gates.gate_status import GateState, Phase
from daybreak.kinds.llmservice.objects.built_with import BuiltWith
from daybreak.kinds.llmservice.objects.desired import group_bounds
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.ray.views.ray_pods import HEAD, pod_views
from daybreak.ray.views.ray_service_view import Bounds, never_served, no_pods, ray_view


def cluster_bounds(seen: Observed) -> dict[str, Bounds]:
    """Bounds for each RayCluster that is to have them, by its name.

    A model whose service was changed in its sleep, or as it woke, wakes in a second cluster, since KubeRay
    sends Serve's configuration to that one only. In the first one it has no pods then: they would keep the
    accelerators that the second one waits for, and serve nobody. A cluster that has been replaced, and is
    there until its last requests have ended, keeps what it has, and gives it back with sleep.

    A model whose turn it is not makes no pods, and gives back what it holds (`scheduling/turns.py`).

    Where a model is to have fewer replicas than it has pods, the pods stay until they are idle. Above
    `maxReplicas` Ray's autoscaler stops one at once, whatever is in progress in it. Serve takes a replica
    away when its requests have ended; then the autoscaler removes the idle pod after `idleTimeout`.
    """
    if seen.service is None:
        return {}
    bounds, ray = group_bounds(seen.service, seen.given_back), ray_view(seen.ray_service)
    bounds |= {names.worker_group(model): (0, 0) for model, turn in seen.turns.items() if turn.after}
    waking = [
        names.worker_group(model)
        for model, state in seen.sleep_states.items()
        if state.phase is Phase.WAKING and state.gate is GateState.CLOSED
    ]
    replaced = {group: wanted for group, wanted in bounds.items() if wanted == (0, 0)}
    idle = never_served(ray, seen.ray_clusters)
    found: dict[str, Bounds] = {}
    for cluster in seen.ray_clusters:
        name = _name(cluster)
        if cluster in idle:
            found[name] = no_pods(cluster)
        elif ray.active and name not in (ray.active, ray.pending):
            found[name] = replaced
        elif ray.upgrading and name == ray.active:
            found[name] = {**bounds, **dict.fromkeys(waking, (0, 0))}
        else:
            found[name] = _with_pods_that_run(seen, name, bounds)
    return {name: wanted for name, wanted in found.items() if wanted}


def needless(seen: Observed) -> str:
    """The second Ray cluster that comes up though the one that serves is what the RayService asks for.

    A Ray cluster keeps what its RayService was built with when it was made. Empty: there is none.
    """
    ray = ray_view(seen.ray_service)
    if not ray.upgrading or seen.ray_service is None:
        return ""
    serving = next((each for each in seen.ray_clusters if _name(each) == ray.active), None)
    made, asked = BuiltWith.of(serving or {}), BuiltWith.of(seen.ray_service)
    same = made is not None and asked is not None and made.cluster == asked.cluster
    return ray.pending if same else ""


def _name(cluster: Manifest) -> str:
    return text(at(cluster, "metadata").get("name"))


def _with_pods_that_run(seen: Observed, cluster: str, wanted: Bounds) -> Bounds:
    run = Counter(
        pod.group
        for pod in pod_views(seen.pods)
        if pod.cluster == cluster and pod.role != HEAD and pod.counts and pod.placed
    )
    return {group: (fewest, max(most, run[group]) if most else 0) for group, (fewest, most) in wanted.items()}
