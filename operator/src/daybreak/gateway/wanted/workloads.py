"""The kinds that stand behind the gateway, found by what stands for an object in labels."""

from collections.abc import Iterator
from typing import Any

from daybreak.api.common import names
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.api.schema.resource import Resource
from daybreak.api.serveapplication.resource import SERVE_APPLICATIONS
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key

WORKLOADS = (LLM_SERVICES, MODEL_SERVERS, SERVE_APPLICATIONS)
_BY_KIND = {resource.kind: resource for resource in WORKLOADS}


def owner_of(resource: Resource, name: str) -> str:
    """What stands for an object of a kind, or for the owner of what belongs to one."""
    return names.of_owner(resource.kind, name) if resource in WORKLOADS else name


def owners(cache: Cache, namespace: str) -> Iterator[str]:
    """What stands for each workload of a namespace."""
    for resource in WORKLOADS:
        for key in cache.keys(resource):
            if key.namespace == namespace:
                yield owner_of(resource, key.name)


def workload(cache: Cache, namespace: str, owner: str) -> dict[str, Any] | None:
    """The workload that this stands for; None: there is none."""
    kind, name = names.kind_and_name(owner)
    resource = _BY_KIND.get(kind)
    return None if resource is None else cache.get(resource, Key(namespace, name))
