"""Metadata of the objects that belong to an object of ours, and go with it."""

from typing import Any, Protocol

from daybreak.api.common import names
from daybreak.api.schema.resource import API_VERSION


class Identified(Protocol):
    """An object of a kind of ours, as far as its own objects name it."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def namespace(self) -> str:
        """Where it is, and they are."""
        ...

    @property
    def uid(self) -> str:
        """Which of that name it is."""
        ...


def owned_metadata(kind: str, owner: Identified, name: str, component: str) -> dict[str, Any]:
    """Names, labels and owner of an object that belongs to `owner`, of that kind of ours.

    The controller reference has Kubernetes' garbage collector remove it with its owner.
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
