"""Which Ray clusters were replaced before they ever served."""

from datetime import timedelta

from daybreak.api.common.unstructured import Manifest, at, parse_time, text
from daybreak.kinds.serveapplication.decide.view import View
from daybreak.ray.views.ray_service_view import never_served

SETTLED = timedelta(seconds=10)
"""After that long a RayService names the Ray cluster that was made for it, also where its watch is behind."""


def replaced_clusters(view: View) -> tuple[list[Manifest], bool]:
    """Ray clusters that can be deleted, and whether others will be soon.

    KubeRay keeps one for as long as requests may take that one which served has in progress. This one has
    none, and its pods would keep the accelerators that the one in its place waits for. To have it without
    worker pods is not enough: KubeRay passes a change over that comes while it makes them.
    """
    if view.seen.asleep or not view.ray.exists or view.ray.leaving:
        return [], False
    there = [
        each
        for each in never_served(view.ray, view.seen.ray_clusters)
        if not at(each, "metadata").get("deletionTimestamp")
    ]
    settled = [each for each in there if _made_before(view, each)]
    return settled, len(settled) < len(there)


def _made_before(view: View, cluster: Manifest) -> bool:
    made = parse_time(text(at(cluster, "metadata").get("creationTimestamp")))
    return made is not None and view.seen.now - made >= SETTLED
