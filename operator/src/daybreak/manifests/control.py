"""Owner references, by which an owner identifies its objects."""

from collections.abc import Iterable, Mapping
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest


def controller(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the owner reference that controls an object."""
    references: Iterable[Mapping[str, Any]] = manifest["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def is_controlled_by(manifest: Manifest, uid: str) -> bool:
    """Return True if the object with this UID controls an object."""
    owner = controller(manifest)
    return owner is not None and owner.get("uid") == uid


def is_orphan_of(manifest: Manifest, service: str) -> bool:
    """Return True if an object with Daybreak's labels has no controller, so that it may be adopted.

    `kubectl delete --cascade=orphan` leaves such objects behind.
    """
    if controller(manifest) is not None:
        return False
    labels = manifest["metadata"].get("labels") or {}
    return labels.get(names.MANAGED_BY_LABEL) == names.MANAGED_BY and names.labelled_owner(labels) == service
