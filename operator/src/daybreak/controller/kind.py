"""What the operator needs of a kind: which objects concern it, and one reconcile of an object."""

from collections.abc import Collection
from typing import Protocol

from daybreak.api.schema.resource import Resource
from daybreak.manifests.keys import Key, OwnerKey


class LeaseLost(Exception):
    """The operator may not act, for a while or any more."""


class Kind(Protocol):
    """A kind of objects that the operator looks after."""

    @property
    def name(self) -> str:
        """Its name, as the queue's items, logs and metrics tell it."""
        ...

    @property
    def watched(self) -> Collection[Resource]:
        """Kinds of objects of which a change concerns an object of this kind."""
        ...

    def concerned(self, resource: Resource, owner: OwnerKey) -> tuple[Key, float] | None:
        """Told that an object of a watched kind has changed, which belongs to `owner`.

        Returns which object of this kind is to be reconciled for that, in how many seconds; None: none is.
        """
        ...

    def objects(self) -> Collection[Key]:
        """Every object of this kind that is known."""
        ...

    async def concerned_by_nodes(self) -> Collection[Key]:
        """Told that nodes have changed. Returns which objects of this kind are to be reconciled for that."""
        ...

    async def settle(self) -> None:
        """Called when everything that is there is known, and before the first reconcile."""
        ...

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile an object, which may be gone. Returns when to look again, in seconds; None: at a change.

        Raises LeaseLost when nothing may be written any more.
        """
        ...

    async def close(self) -> None:
        """End what runs beside the reconciles."""
        ...
