"""Namespace and name of an object, and the owner of objects."""

from typing import NamedTuple

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest


class Key(NamedTuple):
    """Namespace and name of an object whose kind is known."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class OwnerKey(NamedTuple):
    """An object of one of Daybreak's kinds, or the gateway of a namespace, as the owner of other objects."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"

    @property
    def key(self) -> Key:
        """Namespace and name of the owner."""
        return Key(self.namespace, self.name)

    @property
    def label(self) -> str:
        """Name of the owner for gateways and in names of objects."""
        return names.of_owner(self.kind, self.name)

    @classmethod
    def of_label(cls, namespace: str, label: str) -> "OwnerKey":
        """Return the owner that a label encodes."""
        kind, name = names.kind_and_name(label)
        return cls(kind, namespace, name)


def gateway_key(namespace: str) -> OwnerKey:
    """Return the gateway of a namespace as an owner."""
    return OwnerKey(names.GATEWAY_KIND, namespace, "")


def key_of(manifest: Manifest) -> Key:
    """Return the namespace and name of an object."""
    metadata = manifest["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])
