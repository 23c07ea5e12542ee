"""Keeps the cache of one kind up to date: lists its objects, then watches them, without end."""

import asyncio
import random
import time

import structlog

from daybreak.api.schema.resource import Resource
from daybreak.kube import metrics
from daybreak.kube.client import LIST_SECONDS, Api
from daybreak.kube.errors import ApiError
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key

PAGE = 100
"""Number of objects in one page of a list. A page is the maximum that is in memory uncompressed at a time."""
WATCH_SECONDS = (240, 420)
"""Minimum and maximum duration of a watch in seconds until the API server ends it. They are spread so that
reconnections do not coincide."""
STALL_MARGIN_SECONDS = 30.0
"""Time in seconds without data after the requested end of a watch, after which the watch is dead. Earlier
silence proves nothing: an unchanged kind gets no bookmarks unless etcd reports its progress, which is every
10 minutes by default. Keepalive probes detect a dead connection sooner (`kube.client`)."""
RELIST_SECONDS = 1800.0
"""Interval in seconds between complete lists, in case a watch has lost an event."""
BACKOFF_SECONDS = (0.2, 30.0)
FORBIDDEN_TIMES = 5
"""Number of consecutive rejections after which a previous right counts as revoked."""

log = structlog.get_logger("daybreak.reflector")


class Reflector:
    """List and watch of one kind, selected by labels on the server.

    Args:
        api: The API server.
        cache: Cache to keep up to date.
        resource: Kind of the objects.
        namespace: Namespace of the objects; None means the whole cluster.
        selector: Label selector.
        name: Name of the only object; if empty, all objects.
        optional: True to end if the API server does not serve the kind, or no longer serves it. Otherwise the
            reflector retries.
    """

    def __init__(
        self,
        api: Api,
        cache: Cache,
        resource: Resource,
        *,
        namespace: str | None = None,
        selector: str = "",
        name: str = "",
        optional: bool = False,
    ) -> None:
        self._api = api
        self._cache = cache
        self._resource = resource
        self._namespace = namespace
        self._path = resource.path(namespace)
        self._selector = {"labelSelector": selector} if selector else {}
        if name:
            # Restrict the request, so that the right to read objects of that name suffices.
            self._selector["fieldSelector"] = f"metadata.name={name}"
        self._optional = optional
        self.synced = asyncio.Event()
        """Set when the first complete list is in the cache, or when the kind turns out to be inaccessible."""
        self.permitted = True
        """False if the operator has no right to read this kind."""

    async def run(self) -> None:
        """List and watch until canceled, or until the kind is not served."""
        failures = 0
        while True:
            try:
                version = await self._list()
                failures = 0
                await self._watch(version)
            except ApiError as error:
                if error.gone:
                    await asyncio.sleep(BACKOFF_SECONDS[0])
                    continue
                if error.not_found and self._optional:
                    self.synced.set()
                    return
                self._note(error, failures)
                failures += 1
                await asyncio.sleep(backoff(failures, *BACKOFF_SECONDS))

    async def _list(self) -> str:
        listed: list[Key] = []
        token = ""
        while True:
            query = {**self._selector, "limit": str(PAGE)} | ({"continue": token} if token else {})
            page = await self._api.request(
                "list", self._resource, self._path, query=query, seconds=LIST_SECONDS
            )
            for item in page.get("items") or ():
                item.setdefault("apiVersion", self._resource.api_version)
                item.setdefault("kind", self._resource.kind)
                listed.append(Key(item["metadata"].get("namespace", ""), item["metadata"]["name"]))
                self._cache.put(self._resource, item)
            token = page["metadata"].get("continue") or ""
            if not token:
                break
        version = str(page["metadata"]["resourceVersion"])
        self._cache.settle(self._resource, listed, version, self._namespace)
        metrics.RELISTS.labels(self._resource.plural).inc()
        self.permitted = True
        self.synced.set()
        return version

    async def _watch(self, version: str) -> None:
        """Watch from `version` repeatedly until the next list is due."""
        until = time.monotonic() + RELIST_SECONDS * random.uniform(0.9, 1.1)  # noqa: S311 -- spread, not secrecy
        failures = 0
        while time.monotonic() < until:
            began = time.monotonic()
            seconds = random.randint(*WATCH_SECONDS)  # noqa: S311
            query = {
                **self._selector,
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
                "timeoutSeconds": str(seconds),
            }
            stall = seconds + STALL_MARGIN_SECONDS
            try:
                async for event in self._api.watch(self._resource, self._path, query, stall):
                    version = self._take(event) or version
            except ApiError as error:
                if error.gone or error.not_found or error.forbidden:
                    raise
                self._note(error, failures)
            # A watch that ends immediately counts as a failure: the API server is unhealthy.
            failures = 0 if time.monotonic() - began > 10.0 else failures + 1
            if failures:
                await asyncio.sleep(backoff(failures, *BACKOFF_SECONDS))

    def _take(self, event: dict[str, object]) -> str | None:
        kind, manifest = event.get("type"), event.get("object")
        if not isinstance(manifest, dict):
            return None
        if kind == "ERROR":
            raise ApiError(
                int(manifest.get("code") or 500), str(manifest.get("reason")), str(manifest.get("message"))
            )
        if kind in ("ADDED", "MODIFIED"):
            self._cache.put(self._resource, manifest)
        elif kind == "DELETED":
            self._cache.drop(self._resource, manifest)
        version = manifest["metadata"].get("resourceVersion")
        return str(version) if version else None

    def _note(self, error: ApiError, failures: int) -> None:
        metrics.WATCH_FAILURES.labels(self._resource.plural).inc()
        # An API server during an upgrade may briefly respond with 403. The first 403 counts only if no list
        # has ever succeeded.
        if error.forbidden and (failures >= FORBIDDEN_TIMES or not self.synced.is_set()):
            if self.permitted:
                log.warning("No permission to read", resource=self._resource.plural, error=error.message)
            self.permitted = False
            self._cache.clear(self._resource, self._namespace)
            self.synced.set()
        elif failures == 0:
            log.warning("Watch failed, retrying", resource=self._resource.plural, error=str(error))


def backoff(failures: int, first: float, most: float) -> float:
    """Return the delay in seconds after consecutive failures: exponential, with jitter."""
    return float(min(most, first * 2 ** min(failures - 1, 16)) * random.uniform(0.5, 1.5))  # noqa: S311 -- jitter
