"""Interface of a kind to the operator: the objects that concern it, and the reconcile of one object."""

from collections.abc import Collection
from typing import Protocol

from daybreak.api.schema.resource import Resource
from daybreak.manifests.keys import Key, OwnerKey


class LeaseLost(Exception):
    """The operator may not act, temporarily or permanently."""


class Kind(Protocol):
    """A kind of objects that the operator reconciles."""

    @property
    def name(self) -> str:
        """Name of the kind in the queue's items, in logs and in metrics."""
        ...

    @property
    def watched(self) -> Collection[Resource]:
        """Kinds whose changes concern an object of this kind."""
        ...

    def concerned(self, resource: Resource, owner: OwnerKey) -> tuple[Key, float] | None:
        """Handle a change of an object of a watched kind that belongs to `owner`.

        Returns:
            The object of this kind to reconcile and the delay in seconds, or None if no object is concerned.
        """
        ...

    def objects(self) -> Collection[Key]:
        """Return every known object of this kind."""
        ...

    async def concerned_by_nodes(self) -> Collection[Key]:
        """Handle a change of nodes. Return the objects of this kind to reconcile."""
        ...

    async def settle(self) -> None:
        """Prepare, after all lists have been read and before the first reconcile."""
        ...

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile an object, which may be gone.

        Return the requeue delay in seconds, or None to wait for a change.

        Raises:
            LeaseLost: The operator may no longer write.
        """
        ...

    async def close(self) -> None:
        """End the background tasks."""
        ...
