"""Which Ray clusters nobody needs any more."""

from datetime import timedelta

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, parse_time, text
from daybreak.gates.sleep_policy import backends_before
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.ray.views.ray_service_view import by_name, never_served, replaced

SETTLED = timedelta(seconds=10)
"""After that long a RayService names the Ray cluster that was made for it, also where its watch is behind."""


def replaced_clusters(view: View) -> tuple[list[Manifest], bool]:
    """Ray clusters that can be deleted, and whether others will be soon.

    KubeRay keeps one for as long as requests may take that one which served has in progress. This one has
    none, and its pods would keep the accelerators that the one in its place waits for. To have it without
    worker pods is not enough: KubeRay passes a change over that comes while it makes them.
    """
    if not view.ray.exists or view.ray.leaving:
        return [], False
    there = [
        each
        for each in never_served(view.ray, view.seen.ray_clusters)
        if not at(each, "metadata").get("deletionTimestamp")
    ]
    settled = [each for each in there if _made_before(view, each)]
    return settled, len(settled) < len(there)


def finished_clusters(view: View) -> tuple[Manifest, ...]:
    """Ray clusters that were replaced, and have no request of any gateway left.

    Where a gateway is not heard, nothing is finished: KubeRay deletes it after `rollout.drainTimeout`.
    """
    gateway = view.seen.gateway
    if gateway is None or gateway.clusters is None:
        return ()
    used = gateway.clusters | set(backends_before(view.seen.status))
    return replaced(view.ray, view.seen.ray_clusters, used)


def needless(view: View) -> str:
    """The second Ray cluster that comes up though the one that serves is what the RayService asks for.

    A Ray cluster keeps what its RayService said when it was made. Empty: there is none.
    """
    ray = view.ray
    if not ray.upgrading:
        return ""
    serving = by_name(view.seen.ray_clusters).get(ray.active)
    made, asked = (_configuration(each) for each in (serving, view.seen.ray_service))
    return ray.pending if made and made == asked else ""


def _configuration(manifest: Manifest | None) -> str:
    return text(at(manifest, "metadata", "annotations").get(names.RAY_CLUSTER_ANNOTATION))


def _made_before(view: View, cluster: Manifest) -> bool:
    made = parse_time(text(at(cluster, "metadata").get("creationTimestamp")))
    return made is not None and view.seen.now - made >= SETTLED
