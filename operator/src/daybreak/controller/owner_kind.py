"""Kind whose objects are reconciled independently and own objects of other kinds."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from daybreak.api.schema.resource import Resource
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key, OwnerKey


class ObjectReconciler(Protocol):
    """Reconciler of single objects."""

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile an object, which may be gone.

        Return the requeue delay in seconds, or None to wait for a change.
        """
        ...


class BackgroundTask(Protocol):
    """Background task of a kind."""

    async def close(self) -> None:
        """End the task."""
        ...


async def no_dependents() -> Collection[Key]:
    """Return no objects, because the scheduler decides for each pod whether a node fits."""
    return ()


class OwnerKind:
    """Implements `controller/kind.py` for a kind of independently reconciled objects.

    Args:
        resource: Kind of the objects.
        cache: State of the cluster.
        owned: Kinds of owned objects; a change of one triggers a reconcile of its owner.
        reconciler: ObjectReconciler one object.
        tasks: Background tasks of the kind.
        by_nodes: Returns the objects to reconcile when nodes have changed.
    """

    def __init__(
        self,
        resource: Resource,
        cache: Cache,
        owned: Collection[Resource],
        reconciler: ObjectReconciler,
        tasks: Sequence[BackgroundTask] = (),
        by_nodes: Callable[[], Awaitable[Collection[Key]]] = no_dependents,
    ) -> None:
        self.name = resource.kind
        self.watched: Collection[Resource] = frozenset((resource, *owned))
        self._resource = resource
        self._cache = cache
        self._reconciler = reconciler
        self._tasks = tasks
        self._by_nodes = by_nodes

    def concerned(self, resource: Resource, owner: OwnerKey) -> tuple[Key, float] | None:
        """Return the owner of a changed object without delay, or None if the owner is of another kind."""
        return (owner.key, 0.0) if owner.kind == self.name else None

    def objects(self) -> Collection[Key]:
        """Return every known object of this kind."""
        return self._cache.keys(self._resource)

    async def concerned_by_nodes(self) -> Collection[Key]:
        """Return the objects that a change of nodes concerns."""
        return await self._by_nodes()

    async def settle(self) -> None:
        """Return immediately: there is nothing to wait for."""

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one object."""
        return await self._reconciler.reconcile(key)

    async def close(self) -> None:
        """End the background tasks."""
        for each in self._tasks:
            await each.close()
