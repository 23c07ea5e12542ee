"""Bounds on the number of worker pods in each running RayCluster."""

from collections import Counter

from daybreak.api.common import names
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.kinds.llmservice.decide.first_cluster import first_cluster
from daybreak.kinds.llmservice.objects.built_with import BuiltWith
from daybreak.kinds.llmservice.objects.desired import group_bounds
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.ray.views.ray_pods import HEAD, pod_views
from daybreak.ray.views.ray_service_view import Bounds, by_name, never_served, no_pods, ray_view


def cluster_bounds(observed: Observed) -> dict[str, Bounds]:
    """Return the bounds of each RayCluster that needs them, by its name.

    If a service was changed while a model slept or woke, the model wakes in a second cluster. KubeRay sends
    Serve's configuration only to that one. The model then has no pods in the first cluster: they would keep
    the accelerators that the second one waits for, without serving requests. A replaced cluster, which exists
    until its last requests have ended, keeps its pods and releases them with sleep. KubeRay may have switched
    to a cluster to which no requests have moved. Such a cluster releases its pods as soon as another one
    comes up, which could need their capacity.

    A model whose turn has not come creates no pods and releases its accelerators (`scheduling/turns.py`).

    If the desired number of replicas is below the number of pods, the pods stay until they are idle. Above
    `maxReplicas`, Ray's autoscaler stops a pod at once, even with requests in progress. Serve removes a
    replica after its requests have ended; then the autoscaler removes the idle pod after `idleTimeout`.
    """
    if observed.subject is None:
        return {}
    bounds, ray = group_bounds(observed.subject, observed.given_back), ray_view(observed.ray_service)
    bounds |= {names.worker_group(model): (0, 0) for model, turn in observed.turns.items() if turn.after}
    waking = [
        names.worker_group(model)
        for model, state in observed.sleep_states.items()
        if state.phase is Phase.WAKING and state.gate is GateState.CLOSED
    ]
    replaced = {group: desired for group, desired in bounds.items() if desired == (0, 0)}
    idle, first = never_served(ray, observed.ray_clusters), first_cluster(observed, ray)
    found: dict[str, Bounds] = {}
    for name, cluster in by_name(observed.ray_clusters).items():
        if cluster in idle:
            found[name] = no_pods(cluster)
        elif ray.active and name not in (ray.active, ray.pending):
            found[name] = replaced
        elif ray.upgrading and name == ray.active and first:
            found[name] = no_pods(cluster)
        elif ray.upgrading and name == ray.active:
            found[name] = {**bounds, **dict.fromkeys(waking, (0, 0))}
        else:
            found[name] = _with_pods_that_run(observed, name, bounds)
    return {name: desired for name, desired in found.items() if desired}


def redundant_cluster(observed: Observed) -> str:
    """Return the pending Ray cluster if the active one already matches the RayService; empty otherwise.

    A Ray cluster keeps the configuration that its RayService had when the cluster was created.
    """
    ray = ray_view(observed.ray_service)
    return ray.pending if ray.upgrading and matches_ray_service(observed, ray.active) else ""


def matches_ray_service(observed: Observed, name: str) -> bool | None:
    """Return True if a Ray cluster matches the current RayService, or None if that is unknown."""
    made = BuiltWith.of(by_name(observed.ray_clusters).get(name, {}))
    requested = BuiltWith.of(observed.ray_service or {})
    return made.cluster == requested.cluster if made is not None and requested is not None else None


def _with_pods_that_run(observed: Observed, cluster: str, desired: Bounds) -> Bounds:
    run = Counter(
        pod.group
        for pod in pod_views(observed.pods)
        if pod.cluster == cluster and pod.role != HEAD and pod.counts and pod.placed
    )
    return {
        group: (fewest, max(most, run[group]) if most else 0) for group, (fewest, most) in desired.items()
    }
