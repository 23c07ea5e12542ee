"""Owner of objects, and ownership of an object with a name that the owner needs."""

from dataclasses import dataclass
from enum import Enum, auto

from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.manifests.control import controller, is_controlled_by, is_orphan_of
from daybreak.manifests.keys import Key, OwnerKey


class NameHolder(Enum):
    """Ownership of an object that has the name of a desired object."""

    OURS = auto()
    ORPHAN = auto()
    """Left over from a deleted owner of this name: the new owner adopts it."""
    PREDECESSORS = auto()
    """Owned by a deleted owner of the same name: the garbage collector deletes it."""
    FOREIGN = auto()
    """Owned by another owner: Daybreak never overwrites it."""


@dataclass(frozen=True)
class Owner:
    """An object of one of Daybreak's kinds, as the owner of other objects."""

    resource: Resource
    key: Key
    uid: str

    @property
    def owner_key(self) -> OwnerKey:
        """Key of the owner in the cache."""
        return OwnerKey(self.resource.kind, *self.key)

    def whose(self, live: Manifest) -> NameHolder:
        """Return the ownership of an object that has a name which the owner needs."""
        if is_controlled_by(live, self.uid):
            return NameHolder.OURS
        found = controller(live)
        if found is not None and (found.get("kind"), found.get("name")) == (
            self.resource.kind,
            self.key.name,
        ):
            return NameHolder.PREDECESSORS
        return NameHolder.ORPHAN if is_orphan_of(live, self.owner_key.label) else NameHolder.FOREIGN
