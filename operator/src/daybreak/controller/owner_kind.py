"""A kind of which each object is reconciled for itself, and owns objects of other kinds."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from daybreak.api.schema.resource import Resource
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key, OwnerKey


class Reconciles(Protocol):
    """Who reconciles one object."""

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one, which may be gone. Returns when to look again, in seconds; None: at a change."""
        ...


class Closes(Protocol):
    """What runs beside the reconciles."""

    async def close(self) -> None:
        """End it."""
        ...


async def no_matter() -> Collection[Key]:
    """Nodes concern no object of a kind: the scheduler says of each pod whether it finds a place."""
    return ()


class OwnerKind:
    """Looks after every object of a kind, as `controller/kind.py` asks for it.

    Args:
        resource: The kind.
        cache: What is known of the cluster.
        owned: Kinds of objects that belong to one, of which a change concerns it.
        reconciler: Reconciles one.
        beside: What runs beside that.
        by_nodes: Says which are to be looked at when nodes have changed.
    """

    def __init__(
        self,
        resource: Resource,
        cache: Cache,
        owned: Collection[Resource],
        reconciler: Reconciles,
        beside: Sequence[Closes] = (),
        by_nodes: Callable[[], Awaitable[Collection[Key]]] = no_matter,
    ) -> None:
        self.name = resource.kind
        self.watched: Collection[Resource] = frozenset((resource, *owned))
        self._resource = resource
        self._cache = cache
        self._reconciler = reconciler
        self._beside = beside
        self._by_nodes = by_nodes

    def concerned(self, resource: Resource, owner: OwnerKey) -> tuple[Key, float] | None:
        """At once, if it is one of them or belongs to one."""
        return (owner.key, 0.0) if owner.kind == self.name else None

    def objects(self) -> Collection[Key]:
        """Every one that is known."""
        return self._cache.keys(self._resource)

    async def concerned_by_nodes(self) -> Collection[Key]:
        """Those to which a change of nodes makes a difference."""
        return await self._by_nodes()

    async def settle(self) -> None:
        """Nothing is waited for."""

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one."""
        return await self._reconciler.reconcile(key)

    async def close(self) -> None:
        """End what runs beside the reconciles."""
        for each in self._beside:
            await each.close()
