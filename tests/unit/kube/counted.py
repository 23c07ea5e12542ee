"""A cache that counts its reads."""

from collections.abc import Iterator
from typing import Any

from daybreak.api.schema.resource import Resource
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key


class Counted(Cache):
    """Cache that counts the read objects, and those with iterated names."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0
        self.named = 0

    def get(self, resource: Resource, key: Key) -> dict[str, Any] | None:
        """Count a read."""
        self.read += 1
        return super().get(resource, key)

    def all(self, resource: Resource) -> Iterator[dict[str, Any]]:
        """Count each read object."""
        for each in super().all(resource):
            self.read += 1
            yield each

    def keys(self, resource: Resource, namespace: str | None = None) -> list[Key]:
        """Count each name."""
        found = super().keys(resource, namespace)
        self.named += len(found)
        return found
