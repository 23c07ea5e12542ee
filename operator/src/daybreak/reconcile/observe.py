"""Gathering, once, everything that one reconcile decides on."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from daybreak.api import names, validation
from daybreak.api.llmservice import InvalidSpec, LLMService
from daybreak.kube.cache import Cache, Key
from daybreak.kube.resources import LLM_SERVICES, NODES, PODS, RAY_CLUSTERS, RAY_SERVICES
from daybreak.kube.watches import Watches
from daybreak.lifecycle.observed import Node, Observed


class Observer:
    """Reads the cache; asks the API server nothing."""

    def __init__(self, cache: Cache, watches: Watches) -> None:
        self._cache = cache
        self._watches = watches
        self._nodes: tuple[Node, ...] = ()
        self._nodes_at = -1

    def observe(self, key: Key) -> Observed | None:
        """What is seen of an LLMService, or None when there is none."""
        manifest = self._cache.get(LLM_SERVICES, key)
        if manifest is None:
            return None
        service, problems = read(manifest)
        return Observed(
            manifest=manifest,
            service=service,
            problems=problems,
            kuberay_installed=self._watches.kuberay_installed,
            ray_service=self._cache.get(RAY_SERVICES, Key(key.namespace, names.ray_service(key.name))),
            ray_clusters=tuple(self._cache.of_service(RAY_CLUSTERS, key)),
            pods=tuple(self._cache.of_service(PODS, key)),
            nodes=self._seen_nodes(),
            now=datetime.now(UTC),
        )

    def _seen_nodes(self) -> tuple[Node, ...] | None:
        if not self._watches.nodes_known:
            return None
        if self._nodes_at != self._cache.changes(NODES):
            self._nodes_at = self._cache.changes(NODES)
            self._nodes = tuple(_node(manifest) for manifest in self._cache.all(NODES))
        return self._nodes


def read(manifest: Mapping[str, Any]) -> tuple[LLMService | None, tuple[str, ...]]:
    """An LLMService from its manifest, and what is wrong with it."""
    try:
        service = LLMService.from_manifest(manifest)
    except InvalidSpec as error:
        return None, (str(error),)
    return service, validation.problems(service)


def active_cluster(ray_service: Mapping[str, Any] | None) -> str | None:
    """Name of the RayCluster that KubeRay sends requests to; None until there is one."""
    status = (ray_service or {}).get("status") or {}
    name = (status.get("activeServiceStatus") or {}).get("rayClusterName")
    return str(name) if name else None


def _node(manifest: Mapping[str, Any]) -> Node:
    spec = manifest["spec"]
    return Node(
        name=manifest["metadata"]["name"],
        labels=manifest["metadata"]["labels"],
        taints=tuple(spec["taints"]),
        allocatable=manifest["status"]["allocatable"],
        unschedulable=spec["unschedulable"],
    )
