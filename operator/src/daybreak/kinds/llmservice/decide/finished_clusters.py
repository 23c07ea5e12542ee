"""Which Ray clusters have been replaced and have no request left."""

from daybreak.api.common.unstructured import Manifest, at, text
from daybreak.gates.sleep_policy import backends_before
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.ray.views.ray_service_view import ray_view


def finished_clusters(seen: Observed) -> tuple[Manifest, ...]:
    """RayClusters that can be deleted: replaced by a newer one, and without a request of any gateway.

    KubeRay deletes a replaced cluster after a delay that it reads once, when the traffic has moved. That
    delay is the limit, `rollout.drainTimeout`. What is finished before is found here.

    Where a gateway is not heard, nothing is finished: it may have streams there. And a cluster that is not
    older than every one that KubeRay names is left alone: its watch may be ahead of the RayService's, so that
    it is one which KubeRay has just made.
    """
    gateway, ray = seen.gateway, ray_view(seen.ray_service)
    if gateway is None or gateway.past or gateway.clusters is None or not ray.exists or ray.leaving:
        return ()
    named = {ray.active, ray.pending} - {""}
    created = {_name(cluster): _created(cluster) for cluster in seen.ray_clusters}
    newest = max((created.get(name, "") for name in named), default="")
    used = named | gateway.clusters | set(backends_before(seen.status))
    return tuple(
        cluster
        for cluster in seen.ray_clusters
        if (name := _name(cluster)) not in used
        and created[name] < newest
        and not at(cluster, "metadata").get("deletionTimestamp")
    )


def _name(cluster: Manifest) -> str:
    return text(at(cluster, "metadata").get("name"))


def _created(cluster: Manifest) -> str:
    """As Kubernetes writes it: later ones are greater, and those of one second are equal."""
    return text(at(cluster, "metadata").get("creationTimestamp"))
