"""What an owner's objects should be beside what they are, and whose those are that are there."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.kube.resources import of
from daybreak.kube.watching.cache import Cache, Key, controller
from daybreak.kube.writing.apply import is_controlled_by, is_orphan_of, key_of


@dataclass(frozen=True)
class Target:
    """An owned object as it should be and as it is."""

    wanted: dict[str, Any]
    live: dict[str, Any] | None


@dataclass(frozen=True)
class Plan:
    """What an owner's objects should be, and what stands in the way."""

    targets: tuple[Target, ...]
    surplus: tuple[dict[str, Any], ...]
    """Objects of ours that the owner does not have any more."""
    foreign: tuple[str, ...]
    """Names that somebody else has taken, as `Kind/name`."""
    leaving: bool
    """Whether objects are still there that must go before others of their name come."""


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
    def label(self) -> Key:
        """What stands for it in the cache, and towards gateways."""
        return label_of(self.resource, self.key)

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
        return Whose.ORPHAN if is_orphan_of(live, self.label.name) else Whose.FOREIGN

    def surplus(
        self, cache: Cache, owned: Iterable[Resource], kept: Iterable[Manifest]
    ) -> list[dict[str, Any]]:
        """Objects that it controls and does not have any more, without those on their way out.

        Args:
            cache: What is known of the cluster.
            owned: Kinds of objects that it may have.
            kept: Objects that it has, or that stay as they are.
        """
        stay = {(of(manifest), key_of(manifest)) for manifest in kept}
        return [
            live
            for resource in owned
            for live in cache.of_service(resource, self.label)
            if is_controlled_by(live, self.uid)
            and (resource, key_of(live)) not in stay
            and not live["metadata"].get("deletionTimestamp")
        ]


def label_of(resource: Resource, key: Key) -> Key:
    """What stands for an object of a kind of ours in the cache, and towards gateways."""
    return Key(key.namespace, names.of_owner(resource.kind, key.name))


def named(manifest: Manifest) -> str:
    """An object as people are told of it."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"
