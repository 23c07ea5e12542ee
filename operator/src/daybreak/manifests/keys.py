"""Namespace and name of an object."""

from typing import NamedTuple

from daybreak.api.common.unstructured import Manifest


class Key(NamedTuple):
    """An object of some kind, or the workload that it belongs to."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(manifest: Manifest) -> Key:
    """Namespace and name of an object."""
    metadata = manifest["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])
