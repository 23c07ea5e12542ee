"""What the observers of several kinds read out of the cache in the same way."""

from daybreak.kube.resources import CONTROLLER_REVISIONS, PODS
from daybreak.kube.watching.cache import Cache, Key, controller
from daybreak.ray.views.ray_pods import pod_views, requests_by_node
from daybreak.rollouts import revisions
from daybreak.rollouts.revisions import Revision
from daybreak.scheduling.room import Booked


def kept_revisions(cache: Cache, owner: Key, uid: str) -> tuple[Revision, ...]:
    """An object's own revisions, the oldest first; those of a deleted one of its name are on their way out.

    Args:
        cache: What is known of the cluster.
        owner: What stands for the object in labels.
        uid: The object's.
    """
    found = cache.of_service(CONTROLLER_REVISIONS, owner)
    return revisions.read(each for each in found if (controller(each) or {}).get("uid", uid) == uid)


def booked(cache: Cache) -> Booked:
    """What pods of all workloads hold on each node. It reads every pod: only for who has to know."""
    return requests_by_node(pod_views(cache.all(PODS)))
