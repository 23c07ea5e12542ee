"""Metadata of objects that belong to a Daybreak object, and are deleted with it."""

from typing import Any, Protocol

from daybreak.api.common import names
from daybreak.api.schema.resource import API_VERSION


class Identified(Protocol):
    """Identity of a Daybreak object, as its owned objects need it."""

    @property
    def name(self) -> str:
        """Name of the object."""
        ...

    @property
    def namespace(self) -> str:
        """Namespace of the object and of its owned objects."""
        ...

    @property
    def uid(self) -> str:
        """UID of the object, which distinguishes it from others of the same name."""
        ...


def owned_metadata(kind: str, owner: Identified, name: str, component: str) -> dict[str, Any]:
    """Return the metadata of an object that belongs to `owner`, of the Daybreak kind `kind`.

    The metadata has the name, the labels and the owner reference. Because of the controller reference,
    Kubernetes' garbage collector deletes the object with its owner.
    """
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": names.labels(names.of_owner(kind, owner.name), component),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
