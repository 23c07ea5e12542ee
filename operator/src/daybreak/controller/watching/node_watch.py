"""Nodes of the cluster, for the fit check and the accelerator queue."""

from collections.abc import Mapping
from typing import Any

from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.watches import Watches
from daybreak.manifests.resources import NODES
from daybreak.scheduling.nodes import Node


class NodeWatch:
    """Reads nodes from the cache.

    Args:
        cache: State of the cluster.
        watches: Fill the cache.
    """

    def __init__(self, cache: Cache, watches: Watches) -> None:
        self._cache = cache
        self._watches = watches
        self._nodes: tuple[Node, ...] = ()
        self._nodes_at = -1

    def nodes(self) -> tuple[Node, ...] | None:
        """Return the nodes, or None if they are unknown.

        The tuple is the same object until a node changes, so that cached results stay valid.
        """
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
