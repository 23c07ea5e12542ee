"""The owner reference of an object, by which an owner knows its own."""

from collections.abc import Iterable, Mapping
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest


def controller(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference that controls an object."""
    references: Iterable[Mapping[str, Any]] = manifest["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def is_controlled_by(manifest: Manifest, uid: str) -> bool:
    """Whether an object is controlled by the object of that uid."""
    owner = controller(manifest)
    return owner is not None and owner.get("uid") == uid


def is_orphan_of(manifest: Manifest, service: str) -> bool:
    """Whether nobody controls an object that bears our labels, and so may be taken back.

    `kubectl delete --cascade=orphan` leaves such objects behind.
    """
    if controller(manifest) is not None:
        return False
    labels = manifest["metadata"].get("labels") or {}
    return labels.get(names.MANAGED_BY_LABEL) == names.MANAGED_BY and names.labelled_owner(labels) == service
