"""The table of handlers, and kopf's settings.

kopf runs the process (signals, start, stop) and watches Daybreak's kinds. Its handlers for creation, update
and deletion are not used: they act on edges, keep their progress in annotations and retry on their own. An
event only says that an object is to be looked at; the queue and the reconcile do the rest.
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
"""Length of one watch of kopf. It is short because kopf's connections have no keepalive probes: a dead one is
found when its watch should have ended."""


class NoMemory(kopf.DiffBaseStorage):
    """Remembers nothing of an object between two events."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """What is compared: nothing."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        """What was there before: nothing."""
        return None

    def store(self, **_: Any) -> None:
        """Remember it: no."""


class Forever:
    """Pauses between tries, without end: an API server that is away is no reason to stop."""

    def __iter__(self) -> Iterator[float]:
        failures = 0
        while True:
            failures += 1
            yield backoff(failures, *BACKOFF_SECONDS)


def configure(settings: kopf.OperatorSettings) -> None:
    """Have kopf watch, and write nothing."""
    settings.peering.standalone = True
    settings.posting.enabled = False
    # Without a watch on CRDs and namespaces: nothing of the cluster's scope is needed for either.
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.inactivity_timeout = WATCH_SECONDS + STALL_MARGIN_SECONDS
    settings.watching.chunk_size = PAGE
    settings.watching.connect_timeout = 5.0
    settings.networking.request_timeout = 60.0
    settings.networking.error_backoffs = Forever()
    # What kopf would remember of each object to find out what has changed: nobody asks.
    settings.persistence.diffbase_storage = NoMemory()
    settings.process.ultimate_exiting_timeout = 30.0


def registry(operator: Operator, resources: Collection[Resource]) -> kopf.OperatorRegistry:
    """Every handler, with a watch on each of these kinds."""
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
    """Take in what the watch of a kind brings; the cache tells the operator what has changed."""

    @kopf.on.event(resource.group, resource.version, resource.plural, id=resource.plural, registry=table)
    async def seen(type: str | None, event: Any, **_: Any) -> None:
        if type == "DELETED":
            cache.drop(resource, event["object"])
        else:
            cache.put(resource, event["object"])
