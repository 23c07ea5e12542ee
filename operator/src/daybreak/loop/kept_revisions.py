"""What the observers of several kinds read out of the cache in the same way."""

from daybreak.kube.watching.cache import Cache
from daybreak.manifests.control import controller
from daybreak.manifests.keys import OwnerKey
from daybreak.manifests.resources import CONTROLLER_REVISIONS
from daybreak.rollouts import revisions
from daybreak.rollouts.revisions import Revision


def kept_revisions(cache: Cache, owner: OwnerKey, uid: str) -> tuple[Revision, ...]:
    """An object's own revisions, the oldest first; those of a deleted one of its name are on their way out.

    Args:
        cache: What is known of the cluster.
        owner: The object.
        uid: The object's.
    """
    found = cache.owned_by(owner, CONTROLLER_REVISIONS)
    return revisions.read(each for each in found if (controller(each) or {}).get("uid", uid) == uid)
