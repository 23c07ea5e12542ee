"""What objects refer to by name: as it is now, and they are looked at again whenever that changes."""

from collections.abc import Callable
from typing import NamedTuple

from daybreak.api.schema.resource import Resource
from daybreak.jobs.observed import Referred
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key, OwnerKey


class _Noted(NamedTuple):
    """What an object refers to, as it was when it was looked at last."""

    name: str
    others: frozenset[str] | None
    """It was not there, and these were; None: it was."""


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
        self._named: dict[tuple[Resource, str], dict[Key, _Noted]] = {}
        """Who refers there, to what."""
        cache.subscribe(self._changed)
        # A status that the operator writes itself is news to who refers to it, too.
        cache.follow(self._changed)

    def look(self, owner: Key, resource: Resource, name: str) -> Referred:
        """What an object refers to in its namespace, by which it goes from now on."""
        self.forget(owner)
        manifest, place = self._cache.get(resource, Key(owner.namespace, name)), (resource, owner.namespace)
        others: tuple[str, ...] = ()
        if manifest is None:
            others = tuple(sorted(key.name for key in self._cache.keys(resource, owner.namespace)))
        self._places[owner] = place
        noted = _Noted(name, None if manifest is not None else frozenset(others))
        self._named.setdefault(place, {})[owner] = noted
        return Referred(resource.kind, name, manifest, others)

    def forget(self, owner: Key) -> None:
        """The object refers to nothing any more."""
        place = self._places.pop(owner, None)
        if place is None:
            return
        self._named[place].pop(owner)
        if not self._named[place]:
            del self._named[place]

    def _changed(self, resource: Resource, changed: OwnerKey) -> None:
        key = changed.key
        for owner, noted in self._named.get((resource, key.namespace), {}).items():
            if noted.others is None:
                news = key.name == noted.name
            else:
                news = (self._cache.uid(resource, key) is not None) != (key.name in noted.others)
            if news:
                self._enqueue(owner)
