"""The nodes of the cluster, as the fit check and the taking of turns read them."""

from collections.abc import Mapping
from typing import Any

from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.watches import Watches
from daybreak.manifests.resources import NODES
from daybreak.scheduling.nodes import Node


class NodeWatch:
    """Reads nodes from the cache.

    Args:
        cache: What is known of the cluster.
        watches: Fill it.
    """

    def __init__(self, cache: Cache, watches: Watches) -> None:
        self._cache = cache
        self._watches = watches
        self._nodes: tuple[Node, ...] = ()
        self._nodes_at = -1

    def nodes(self) -> tuple[Node, ...] | None:
        """The nodes; None: they are not known. The same object while none has changed, so that answers about
        them are kept."""
        if not self._watches.nodes_known:
            return None
        if self._nodes_at != self._cache.changes(NODES):
            self._nodes_at = self._cache.changes(NODES)
            nodes = tuple(_node(manifest) for manifest in self._cache.all(NODES))
            self._nodes = self._nodes if nodes == self._nodes else nodes
        return self._nodes


def _node(manifest: Mapping[str, Any]) -> Node:
    spec = manifest["spec"]
    return Node(
        name=manifest["metadata"]["name"],
        labels=manifest["metadata"]["labels"],
        taints=tuple(spec["taints"]),
        allocatable=manifest["status"]["allocatable"],
        unschedulable=spec["unschedulable"],
    )
