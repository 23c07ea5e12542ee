"""Ray clusters that are no longer needed."""

from datetime import timedelta

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, parse_time, text
from daybreak.gates.sleep_policy import backends_before
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.ray.views.ray_service_view import by_name, never_served, replaced

SETTLED = timedelta(seconds=10)
"""Time after which a RayService names the Ray cluster that was created for it, even if its watch is
behind."""


def replaced_clusters(view: View) -> tuple[list[Manifest], bool]:
    """Return the Ray clusters to delete, and True if others follow soon.

    KubeRay keeps a cluster that has served for as long as its requests in progress may take. The returned
    clusters have no requests, and their pods would keep the accelerators that their replacement waits for. To
    remove their worker pods is not enough, because KubeRay skips a change that arrives while it creates them.
    """
    if not view.ray.exists or view.ray.leaving:
        return [], False
    there = [
        each
        for each in never_served(view.ray, view.observed.ray_clusters)
        if not at(each, "metadata").get("deletionTimestamp")
    ]
    settled = [each for each in there if _made_before(view, each)]
    return settled, len(settled) < len(there)


def finished_clusters(view: View) -> tuple[Manifest, ...]:
    """Return the Ray clusters that were replaced and have no requests of any gateway left.

    Without reports of a gateway no cluster is finished: KubeRay deletes it after `rollout.drainTimeout`.
    """
    gateway = view.observed.gateway
    if gateway is None or gateway.clusters is None:
        return ()
    used = gateway.clusters | set(backends_before(view.observed.status))
    return replaced(view.ray, view.observed.ray_clusters, used)


def redundant_cluster(view: View) -> str:
    """Return the pending Ray cluster if the active one already matches the RayService; empty otherwise.

    A Ray cluster keeps the configuration that its RayService had when the cluster was created.
    """
    ray = view.ray
    if not ray.upgrading:
        return ""
    serving = by_name(view.observed.ray_clusters).get(ray.active)
    made, requested = (_configuration(each) for each in (serving, view.observed.ray_service))
    return ray.pending if made and made == requested else ""


def _configuration(manifest: Manifest | None) -> str:
    return text(at(manifest, "metadata", "annotations").get(names.RAY_CLUSTER_ANNOTATION))


def _made_before(view: View, cluster: Manifest) -> bool:
    made = parse_time(text(at(cluster, "metadata").get("creationTimestamp")))
    return made is not None and view.observed.now - made >= SETTLED
