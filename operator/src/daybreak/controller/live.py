"""Observation of an owner's current objects."""

from collections.abc import Collection, Iterable

from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing.apply import Applier
from daybreak.manifests.keys import key_of
from daybreak.manifests.owner import Owner
from daybreak.manifests.plan import Live
from daybreak.manifests.resources import of


async def observe_live(
    owner: Owner, desired: Iterable[Manifest], owned: Collection[Resource], cache: Cache, applier: Applier
) -> Live:
    """Return the objects with an owner's label, and those with the name of a desired object.

    The cache has only objects with Daybreak's label. Another object is read from the API server after a
    conflict has shown that its name is taken.
    """
    labeled = {
        (resource, key_of(live)): live
        for resource in owned
        for live in cache.owned_by(owner.owner_key, resource)
    }
    named = {}
    for each in desired:
        ref = of(each), key_of(each)
        live = labeled.get(ref) or await applier.live(each)
        if live is not None:
            named[ref] = live
    return Live(named, labeled)
