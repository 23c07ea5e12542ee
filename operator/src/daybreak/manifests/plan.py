"""Plan for an owner's objects, from their desired and live state."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.manifests.control import is_controlled_by
from daybreak.manifests.keys import Key, key_of
from daybreak.manifests.owner import Owner
from daybreak.manifests.resources import of


@dataclass(frozen=True)
class Live:
    """Live objects of an owner."""

    named: Mapping[tuple[Resource, Key], dict[str, Any]]
    """Objects with a name that the owner needs, of any owner."""
    labeled: Mapping[tuple[Resource, Key], dict[str, Any]]
    """Objects of the owner's kinds that have the owner's label."""

    def find(self, desired: Manifest) -> dict[str, Any] | None:
        """Return the live object that has the name of a desired one."""
        return self.named.get((of(desired), key_of(desired)))

    def surplus(
        self, owner: Owner, owned: Collection[Resource], kept: Iterable[Manifest]
    ) -> Sequence[dict[str, Any]]:
        """Return the objects that the owner controls and no longer needs, except those in deletion.

        Args:
            owner: The owner.
            owned: Kinds of objects that the owner may have.
            kept: Objects that the owner has, or that stay unchanged.
        """
        stay = {(of(manifest), key_of(manifest)) for manifest in kept}
        return [
            live
            for (resource, key), live in self.labeled.items()
            if resource in owned
            and is_controlled_by(live, owner.uid)
            and (resource, key) not in stay
            and not live["metadata"].get("deletionTimestamp")
        ]


@dataclass(frozen=True)
class Target:
    """An owned object in its desired and its live state."""

    desired: dict[str, Any]
    live: dict[str, Any] | None


@dataclass(frozen=True)
class Plan:
    """Desired objects of an owner, and conflicts that block them."""

    targets: tuple[Target, ...]
    surplus: tuple[dict[str, Any], ...]
    """Objects of the owner that are no longer needed."""
    foreign: tuple[str, ...]
    """Names that another owner has taken, as `Kind/name`."""
    leaving: bool
    """True if objects in deletion block new objects of the same name."""


def named(manifest: Manifest) -> str:
    """Return the name of an object for messages."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"
