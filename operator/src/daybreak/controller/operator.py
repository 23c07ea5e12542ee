"""The running operator: lease, watches and workers, in the order of their start and end."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import structlog

from daybreak.api.schema.resource import Resource
from daybreak.controller import metrics
from daybreak.controller.kind import Kind, LeaseLost
from daybreak.controller.queue import BACKOFF_SECONDS, Item, Queue
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.lease import Lease
from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.watches import DISCOVERY_SECONDS, Watches, is_served
from daybreak.manifests.keys import Key, OwnerKey
from daybreak.manifests.resources import NODES

WORKERS = 16
"""Maximum number of concurrent reconciles. They mostly wait for the API server."""
RESYNC_SECONDS = 600.0
"""Interval in seconds between reconciles of every object, without a change."""
NODES_SECONDS = 5.0
"""Time in seconds over which changes of nodes are collected before the concerned objects are determined."""
UNREACHABLE_SECONDS = 10.0
"""Maximum requeue delay of an object in seconds while the API server does not answer."""
DRAIN_SECONDS = 10.0
"""Maximum time in seconds for reconciles in progress to end when the operator stops."""
TICK_SECONDS = 1.0

log = structlog.get_logger("daybreak.operator")


class Operator:
    """Runs everything while this process holds the lease.

    Args:
        api: The API server.
        cache: State of the cluster.
        queue: Objects to reconcile.
        watches: Fill the cache.
        lease: Lease that the operator must hold before it writes.
        kinds: Kinds that the operator reconciles.
        needed: Kinds that the API server must serve before the operator starts.
        on_end: Called when the lease is lost, so that the process must end, and when the operator has ended.
    """

    def __init__(
        self,
        api: Api,
        cache: Cache,
        queue: Queue,
        watches: Watches,
        lease: Lease,
        kinds: Sequence[Kind],
        *,
        needed: Sequence[Resource],
        on_end: Callable[[], None],
    ) -> None:
        self.queue = queue
        self.cache = cache
        self.lease = lease
        self.ready = asyncio.Event()
        """Set when all lists have been read and reconciles have begun."""
        self.lost = False
        """True if the operator ends because it lost the lease."""
        self.lag = 0.0
        """Delay of the event loop's last tick in seconds."""
        self._api = api
        self._watches = watches
        self._kinds = {kind.name: kind for kind in kinds}
        self._needed = needed
        self._on_end = on_end
        self._tasks: list[asyncio.Task[None]] = []
        self._ticker: asyncio.Task[None] | None = None
        self._nodes_changed = asyncio.Event()
        self._stopping = False
        cache.subscribe(self._changed)

    async def start(self) -> None:
        """Wait for the lease, then start. Return when objects of Daybreak's kinds can be watched."""
        self._ticker = asyncio.create_task(self._tick(), name="tick")
        await self.lease.acquire()
        for resource in self._needed:
            await self._wait_for_crd(resource)
        self._spawn("lease", self._keep_lease())
        listed = asyncio.Event()
        self._spawn("watches", self._watches.run(listed))
        self._spawn("begin", self._begin(listed))
        self._spawn("resync", self._resync_slowly())
        self._spawn("nodes", self._follow_nodes())
        for number in range(WORKERS):
            self._spawn(f"worker {number}", self._work())

    async def stop(self) -> None:
        """Stop: start no new reconcile, finish those in progress and release the lease."""
        self._stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS if self.lease.held else 0):
                await self.queue.quiet()
        tasks = [*self._tasks, *([self._ticker] if self._ticker else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            for kind in self._kinds.values():
                await kind.close()
            await self.lease.release()
        finally:
            self._on_end()

    def resync(self, over_seconds: float = 0.0) -> None:
        """Reconcile every object, spread over some time."""
        for kind in self._kinds.values():
            self._look_at(kind, kind.objects(), over_seconds)

    def _look_at(self, kind: Kind, keys: Collection[Key], over_seconds: float) -> None:
        for key in keys:
            self.queue.add(Item(kind.name, key), random.uniform(0, over_seconds))  # noqa: S311 -- spread

    async def _begin(self, listed: asyncio.Event) -> None:
        """Start the workers when all lists have been read."""
        await listed.wait()
        for kind in self._kinds.values():
            await kind.settle()
        self.ready.set()

    def _changed(self, resource: Resource, owner: OwnerKey) -> None:
        if resource is NODES:
            self._nodes_changed.set()
            return
        for kind in self._kinds.values():
            if resource in kind.watched and (found := kind.concerned(resource, owner)) is not None:
                mine, after = found
                self.queue.add(Item(kind.name, mine), after)

    async def _follow_nodes(self) -> None:
        """Reconcile the objects that a change of nodes concerns."""
        while True:
            await self._nodes_changed.wait()
            await asyncio.sleep(NODES_SECONDS)
            self._nodes_changed.clear()
            for kind in self._kinds.values():
                self._look_at(kind, await kind.concerned_by_nodes(), NODES_SECONDS)

    async def _work(self) -> None:
        await self.ready.wait()
        while not self._stopping:
            item = await self.queue.take()
            # Taking an item and reading the cache may never suspend: yield to the other tasks here.
            await asyncio.sleep(0)
            if self._stopping:
                return
            await self._reconcile(item)

    async def _reconcile(self, item: Item) -> None:
        began = time.monotonic()
        try:
            again = await self._kinds[item.kind].reconcile(item.key)
        except ApiError as error:
            unreachable = error.status == 0 or error.status >= 500 or error.status == 429
            most = UNREACHABLE_SECONDS if unreachable else BACKOFF_SECONDS[1]
            pause = self.queue.failed(item, most, error.retry_after)
            outcome = "conflict" if error.conflict else "unreachable" if unreachable else "refused"
            if not error.conflict:
                log.warning(
                    "Reconcile failed", object=str(item), error=str(error), again_after=round(pause, 1)
                )
        except LeaseLost:
            self.queue.failed(item, UNREACHABLE_SECONDS)
            outcome = "lease lost"
        except Exception as error:  # one object must never stop the others
            pause = self.queue.failed(item)
            outcome = "error"
            log.exception("Reconcile failed", object=str(item), error=str(error), again_after=round(pause, 1))
        else:
            self.queue.done(item, again_after=again)
            outcome = "done"
        metrics.RECONCILES.labels(item.kind, outcome).inc()
        metrics.DURATION.labels(item.kind).observe(time.monotonic() - began)

    async def _keep_lease(self) -> None:
        await self.lease.keep()
        self._lose()

    def _lose(self) -> None:
        self.lost = True
        self._on_end()

    async def _resync_slowly(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            self.resync(RESYNC_SECONDS / 2)

    async def _wait_for_crd(self, resource: Resource) -> None:
        message = False
        while True:
            try:
                if await is_served(self._api, resource):
                    return
                if not message:
                    log.error(f"The API server does not serve {resource.kind}s: install Daybreak's CRDs")
                    message = True
            except ApiError as error:
                log.warning(f"Failed to check whether {resource.kind}s are served", error=str(error))
            await asyncio.sleep(DISCOVERY_SECONDS)

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            self.lag = max(0.0, loop.time() - due)
            metrics.LOOP_LAG.set(self.lag)
            metrics.WAITING.set(len(self.queue))
            metrics.RUNNING.set(self.queue.running)
            metrics.OLDEST.set(self.queue.oldest())

    def _spawn(self, name: str, work: Any) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Handle the end of a part of the operator as a failure.

        A restart is safer than an operator without that part.
        """
        if self._stopping or task.cancelled() or (task.get_name() == "begin" and not task.exception()):
            return
        error = task.exception()
        log.error("Part of the operator ended", part=task.get_name(), error=repr(error))
        self._lose()
