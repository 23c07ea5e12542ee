"""What objects refer to by name: as it is now, and they are looked at again whenever that changes."""

from collections.abc import Callable

from daybreak.api.common.resource import Resource
from daybreak.controller.jobs.observed import Referred
from daybreak.kube.watching.cache import Cache, Key


class References:
    """Knows what each object of a kind refers to.

    Args:
        cache: What is known of the cluster.
        enqueue: Called with an object whose reference leads to something else than before.
    """

    def __init__(self, cache: Cache, enqueue: Callable[[Key], None]) -> None:
        self._cache = cache
        self._enqueue = enqueue
        self._places: dict[Key, tuple[Resource, str]] = {}
        """Kind, and namespace, of what each object refers to."""
        self._named: dict[tuple[Resource, str], dict[Key, str | None]] = {}
        """Who refers there, to which name; None: to one that is not there, so that all others matter."""
        cache.subscribe(self._changed)
        # A status that the operator writes itself is news to who refers to it, too.
        cache.follow(self._changed)

    def look(self, owner: Key, resource: Resource, name: str) -> Referred:
        """What an object refers to in its namespace, by which it goes from now on."""
        self.forget(owner)
        manifest, place = self._cache.get(resource, Key(owner.namespace, name)), (resource, owner.namespace)
        self._places[owner] = place
        self._named.setdefault(place, {})[owner] = None if manifest is None else name
        if manifest is not None:
            return Referred(resource.kind, name, manifest)
        there = (key.name for key in self._cache.keys(resource) if key.namespace == owner.namespace)
        return Referred(resource.kind, name, None, tuple(sorted(there)))

    def forget(self, owner: Key) -> None:
        """The object refers to nothing any more."""
        place = self._places.pop(owner, None)
        if place is None:
            return
        self._named[place].pop(owner)
        if not self._named[place]:
            del self._named[place]

    def _changed(self, resource: Resource, key: Key) -> None:
        for owner, name in self._named.get((resource, key.namespace), {}).items():
            if name in (None, key.name):
                self._enqueue(owner)
