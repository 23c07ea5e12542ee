"""The owner of objects, and whose an object is that has a name which the owner needs."""

from dataclasses import dataclass
from enum import Enum, auto

from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.manifests.control import controller, is_controlled_by, is_orphan_of
from daybreak.manifests.keys import Key, OwnerKey


class Whose(Enum):
    """Whose an object is that has the name of one of ours."""

    OURS = auto()
    ORPHAN = auto()
    """Made for an owner of this name, and left over: it is taken over."""
    PREDECESSORS = auto()
    """Of a deleted owner of the same name: the garbage collector will take it."""
    FOREIGN = auto()
    """Somebody else's: it is never written over."""


@dataclass(frozen=True)
class Owner:
    """An object of a kind of ours, as the owner of others."""

    resource: Resource
    key: Key
    uid: str

    @property
    def owner_key(self) -> OwnerKey:
        """What names it in the cache."""
        return OwnerKey(self.resource.kind, *self.key)

    def whose(self, live: Manifest) -> Whose:
        """Whose this object is, which has a name that the owner needs."""
        if is_controlled_by(live, self.uid):
            return Whose.OURS
        found = controller(live)
        if found is not None and (found.get("kind"), found.get("name")) == (
            self.resource.kind,
            self.key.name,
        ):
            return Whose.PREDECESSORS
        return Whose.ORPHAN if is_orphan_of(live, self.owner_key.label) else Whose.FOREIGN
