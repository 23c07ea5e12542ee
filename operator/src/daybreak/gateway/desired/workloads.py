"""Kinds of workloads that the gateway serves, and their objects."""

from collections.abc import Iterator
from typing import Any

from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey

WORKLOADS = (LLM_SERVICES, MODEL_SERVERS, SERVE_APPLICATIONS)
_BY_KIND = {resource.kind: resource for resource in WORKLOADS}


def owners(cache: Cache, namespace: str) -> Iterator[OwnerKey]:
    """Yield each workload of a namespace."""
    for resource in WORKLOADS:
        for key in cache.keys(resource, namespace):
            yield OwnerKey(resource.kind, *key)


def workload(cache: Cache, owner: OwnerKey) -> dict[str, Any] | None:
    """Return the manifest of a workload, or None if there is none."""
    resource = _BY_KIND.get(owner.kind)
    return None if resource is None else cache.get(resource, owner.key)
