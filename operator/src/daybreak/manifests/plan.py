"""What an owner's objects should be beside what they are."""

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
    """An owner's objects as they are."""

    named: Mapping[tuple[Resource, Key], dict[str, Any]]
    """Those that have a name which it needs, whoever they belong to."""
    labeled: Mapping[tuple[Resource, Key], dict[str, Any]]
    """Those of the kinds that it may have which bear its label."""

    def find(self, wanted: Manifest) -> dict[str, Any] | None:
        """Return the object that has the name of a wanted one."""
        return self.named.get((of(wanted), key_of(wanted)))

    def surplus(
        self, owner: Owner, owned: Collection[Resource], kept: Iterable[Manifest]
    ) -> Sequence[dict[str, Any]]:
        """Return the objects that the owner controls and no longer has, except those on their way out.

        Args:
            owner: The owner.
            owned: Kinds of objects that it may have.
            kept: Objects that it has, or that stay as they are.
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


def named(manifest: Manifest) -> str:
    """Return an object as messages name it."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"
