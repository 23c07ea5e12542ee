"""Revisions of a workload in the cache, for the observers of several kinds."""

from daybreak.kube.watching.cache import Cache
from daybreak.manifests.control import controller
from daybreak.manifests.keys import OwnerKey
from daybreak.manifests.resources import CONTROLLER_REVISIONS
from daybreak.rollouts import revisions
from daybreak.rollouts.revisions import Revision


def kept_revisions(cache: Cache, owner: OwnerKey, uid: str) -> tuple[Revision, ...]:
    """Return an object's own revisions, the oldest first, without those of a deleted object of its name.

    Args:
        cache: The cache of the cluster's objects.
        owner: The object.
        uid: UID of the object.
    """
    found = cache.owned_by(owner, CONTROLLER_REVISIONS)
    return revisions.read(each for each in found if (controller(each) or {}).get("uid", uid) == uid)
