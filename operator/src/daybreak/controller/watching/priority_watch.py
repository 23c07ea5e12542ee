"""PriorityClasses of the cluster, for the accelerator queue."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common.unstructured import text, whole
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.resources import PRIORITY_CLASSES
from daybreak.scheduling.pod_priority import PriorityClass, PriorityClasses


class PriorityWatch:
    """Reads PriorityClasses from the cache, which has none if the operator may not read them.

    Args:
        cache: State of the cluster.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._classes: PriorityClasses = {}
        self._at = -1

    def classes(self) -> PriorityClasses:
        """Return the classes by name, as the same object until one changes."""
        if self._at != self._cache.changes(PRIORITY_CLASSES):
            self._at = self._cache.changes(PRIORITY_CLASSES)
            found = self._cache.all(PRIORITY_CLASSES)
            self._classes = {text(each["metadata"]["name"]): _class(each) for each in found}
        return self._classes


def _class(manifest: Mapping[str, Any]) -> PriorityClass:
    return PriorityClass(
        value=whole(manifest.get("value")) or 0,
        preempts=manifest.get("preemptionPolicy") != "Never",
        default=bool(manifest.get("globalDefault")),
    )
