"""References of objects by name, with a reconcile when a target changes."""

from collections.abc import Callable
from typing import NamedTuple

from daybreak.api.schema.resource import Resource
from daybreak.jobs.observed import Referred
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key, OwnerKey


class _Noted(NamedTuple):
    """Target of a reference at the last reconcile."""

    name: str
    others: frozenset[str] | None
    """Names that existed instead if the target did not exist; None if it existed."""


class References:
    """Tracks the target of each object's reference.

    Args:
        cache: State of the cluster.
        enqueue: Called with an object whose reference has a changed target.
    """

    def __init__(self, cache: Cache, enqueue: Callable[[Key], None]) -> None:
        self._cache = cache
        self._enqueue = enqueue
        self._places: dict[Key, tuple[Resource, str]] = {}
        """Kind and namespace of each object's target."""
        self._named: dict[tuple[Resource, str], dict[Key, _Noted]] = {}
        """Objects with references, by kind and namespace of their targets."""
        cache.subscribe(self._changed)
        # An object also follows statuses that the operator itself writes to its target.
        cache.follow(self._changed)

    def look(self, owner: Key, resource: Resource, name: str) -> Referred:
        """Return the target of an object's reference in its namespace, and track it from now on."""
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
        """Stop tracking the reference of an object."""
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
