"""Handlers and settings of kopf.

kopf runs the process (signals, start, stop) and watches Daybreak's kinds. Its handlers for creation, update
and deletion are not used: they are edge-triggered, store their progress in annotations and retry on their
own. An event only triggers a reconcile through the queue.
"""

from collections.abc import Collection, Iterator
from typing import Any

import kopf

from daybreak.api.schema.resource import Resource
from daybreak.controller.operator import Operator
from daybreak.kube.credentials import in_cluster
from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.reflector import BACKOFF_SECONDS, PAGE, STALL_MARGIN_SECONDS, backoff

WATCH_SECONDS = 90
"""Duration of one watch of kopf in seconds. It is short because kopf's connections have no keepalive probes:
a dead connection is detected only at the end of its watch."""


class NoMemory(kopf.DiffBaseStorage):
    """Storage that stores no state of objects between two events."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return the compared parts of an object: none."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """Return the stored state: none."""
        return None

    def store(self, **_: Any) -> None:
        """Store nothing."""


class Forever:
    """Endless delays between retries: an unavailable API server is no reason to stop."""

    def __iter__(self) -> Iterator[float]:
        failures = 0
        while True:
            failures += 1
            yield backoff(failures, *BACKOFF_SECONDS)


def configure(settings: kopf.OperatorSettings) -> None:
    """Configure kopf to watch only and to write nothing."""
    settings.peering.standalone = True
    settings.posting.enabled = False
    # Disable the watches of CRDs and namespaces: they would need cluster-wide rights that Daybreak does not
    # require.
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.inactivity_timeout = WATCH_SECONDS + STALL_MARGIN_SECONDS
    settings.watching.chunk_size = PAGE
    settings.watching.connect_timeout = 5.0
    settings.networking.request_timeout = 60.0
    settings.networking.error_backoffs = Forever()
    # kopf's stored state serves to compute changes, which no handler uses.
    settings.persistence.diffbase_storage = NoMemory()
    settings.process.ultimate_exiting_timeout = 30.0


def registry(operator: Operator, resources: Collection[Resource]) -> kopf.OperatorRegistry:
    """Register all handlers, with a watch on each of these kinds."""
    table = kopf.OperatorRegistry()

    @kopf.on.login(registry=table)
    def login(**kwargs: Any) -> Any:
        return (
            kopf.login_with_service_account(**kwargs)
            if in_cluster()
            else kopf.login_with_kubeconfig(**kwargs)
        )

    @kopf.on.startup(registry=table)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)
        await operator.start()

    @kopf.on.cleanup(registry=table)
    async def stop(**_: Any) -> None:
        await operator.stop()

    for resource in resources:
        _watch(table, operator.cache, resource)
    return table


def _watch(table: kopf.OperatorRegistry, cache: Cache, resource: Resource) -> None:
    """Pass watch events of a kind to the cache, which notifies the operator of changes."""

    @kopf.on.event(resource.group, resource.version, resource.plural, id=resource.plural, registry=table)
    async def observed(type: str | None, event: Any, **_: Any) -> None:
        if type == "DELETED":
            cache.drop(resource, event["object"])
        else:
            cache.put(resource, event["object"])
