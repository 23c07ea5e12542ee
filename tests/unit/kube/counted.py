"""A cache that counts what is read of it."""

from collections.abc import Iterator
from typing import Any

from daybreak.api.schema.resource import Resource
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key


class Counted(Cache):
    """Counts the objects that are read, and those whose names are told."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0
        self.named = 0

    def get(self, resource: Resource, key: Key) -> dict[str, Any] | None:
        """Counted."""
        self.read += 1
        return super().get(resource, key)

    def all(self, resource: Resource) -> Iterator[dict[str, Any]]:
        """Counted, each of them."""
        for each in super().all(resource):
            self.read += 1
            yield each

    def keys(self, resource: Resource, namespace: str | None = None) -> list[Key]:
        """Counted, each of them."""
        found = super().keys(resource, namespace)
        self.named += len(found)
        return found
