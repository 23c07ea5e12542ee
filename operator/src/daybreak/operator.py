"""The running operator: lease, reflectors, workers, in the order in which they may begin and must end."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import structlog

from daybreak.api.common.resource import Resource
from daybreak.api.llmservice.definition import LLM_SERVICES
from daybreak.controller import metrics
from daybreak.controller.queue import Queue
from daybreak.gates.gateway_controller import GatewayController
from daybreak.gates.gateway_reports import Enqueue, GatewayReports, gateway_key
from daybreak.kinds.llmservice.observe.adapter_reports import AdapterProber, HttpReporter
from daybreak.kinds.llmservice.observe.model_client import ModelClient
from daybreak.kinds.llmservice.observe.observer import Observer
from daybreak.kinds.llmservice.observe.prober import Prober
from daybreak.kinds.llmservice.reconciler import LeaseLost, Reconciler
from daybreak.kube.apply import Applier
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.lease import Lease
from daybreak.kube.resources import NODES, PODS
from daybreak.kube.watches import DISCOVERY_SECONDS, Watches, is_served
from daybreak.platform import Platform

Listen = Callable[[Cache, Collection[Resource], Enqueue], GatewayReports]
"""Makes what listens to gateways, out of their cache, the kinds that stand behind them, and a queue."""

WORKLOADS = (LLM_SERVICES,)
"""The kinds that stand behind gateways."""
WORKERS = 16
"""Reconciles at the same time. They wait for the API server most of their time."""
RESYNC_SECONDS = 600.0
"""How often every service is looked at again, whether anything has changed or not."""
NODES_SECONDS = 5.0
"""Over how long changes of nodes are gathered before the services are looked at again."""
GATEWAY_SECONDS = 1.0
"""Over how long the coming and going of LLMServices is gathered before a namespace's gateway is looked at."""
UNREACHABLE_SECONDS = 10.0
"""Longest pause of a service while the API server does not answer."""
DRAIN_SECONDS = 10.0
"""How long reconciles under way may take to end when the operator stops."""
TICK_SECONDS = 1.0

log = structlog.get_logger("daybreak.operator")


class Operator:
    """Everything that runs while this process holds the lease.

    Args:
        api: The API server.
        platform: Settings of the installation.
        lease: What is to be held before anything is written.
        prober: How models are asked.
        namespace: Only this namespace; None means all.
        on_end: Called when the lease is lost, so that the process must end, and when it has ended.
        listen: Makes what listens to gateways.
    """

    def __init__(
        self,
        api: Api,
        platform: Platform,
        lease: Lease,
        client: ModelClient,
        *,
        namespace: str | None,
        on_end: Callable[[], None],
        listen: Listen = GatewayReports,
    ) -> None:
        self.queue = Queue()
        self.cache = Cache()
        self.lease = lease
        self.ready = asyncio.Event()
        """Set when every list has been read and reconciling has begun."""
        self.lost = False
        """Whether it ends because it may not go on."""
        self.lag = 0.0
        """How late the event loop came to its last tick, in seconds."""
        self._api = api
        self._on_end = on_end
        with_gateways = bool(platform.gateway_image)
        self._watches = Watches(
            api, self.cache, namespace=namespace, gateways=with_gateways, on_kuberay=self.resync
        )
        self._prober = Prober(client, self.queue.add)
        self._adapters = AdapterProber(HttpReporter(), self.queue.add)
        self._gateways = listen(self.cache, WORKLOADS, self.queue.add) if with_gateways else None
        observer = Observer(self.cache, self._watches, self._gateways)
        applier = Applier(api, self.cache)
        self._reconciler = Reconciler(
            api, self.cache, observer, platform, self._prober, self._adapters, applier, lambda: lease.held
        )
        self._namespaces = GatewayController(api, self.cache, WORKLOADS, applier, platform)
        self._tasks: list[asyncio.Task[None]] = []
        self._ticker: asyncio.Task[None] | None = None
        self._nodes_timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self.cache.subscribe(self._changed)

    async def start(self) -> None:
        """Wait for the lease, then begin. Returns when LLMServices may be watched."""
        self._ticker = asyncio.create_task(self._tick(), name="tick")
        await self.lease.acquire()
        await self._wait_for_crd()
        self._spawn("lease", self._keep_lease())
        listed = asyncio.Event()
        self._spawn("watches", self._watches.run(listed))
        self._spawn("begin", self._begin(listed))
        self._spawn("resync", self._resync_slowly())
        for number in range(WORKERS):
            self._spawn(f"worker {number}", self._work())

    async def stop(self) -> None:
        """End: no new reconcile, those under way finish, the lease is given back."""
        self._stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS if self.lease.held else 0):
                await self.queue.quiet()
        tasks = [*self._tasks, *([self._ticker] if self._ticker else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._prober.close()
            await self._adapters.close()
            if self._gateways is not None:
                await self._gateways.close()
            await self.lease.release()
        finally:
            self._on_end()

    def saw(self, gone: bool, manifest: Mapping[str, Any]) -> None:
        """Take in what the watch of LLMServices brought; what has changed is enqueued."""
        if gone:
            self.cache.drop(LLM_SERVICES, manifest)
        else:
            self.cache.put(LLM_SERVICES, manifest)

    def resync(self, over_seconds: float = 0.0) -> None:
        """Look at every service again, spread over some time."""
        for key in self.cache.keys(LLM_SERVICES):
            self.queue.add(key, random.uniform(0, over_seconds))  # noqa: S311 -- spread, not secrecy

    async def _begin(self, listed: asyncio.Event) -> None:
        """Let the workers begin as soon as everything is known."""
        await listed.wait()
        if self._gateways is not None:
            await self._gateways.settle()
        self.ready.set()

    def _changed(self, resource: Resource, key: Key) -> None:
        if self._gateways is not None:
            if resource is PODS and key == gateway_key(key.namespace):
                self._gateways.refresh(key.namespace)
                return
            if resource is LLM_SERVICES:
                # The first one of a namespace brings its gateway, and the last one takes it away.
                self.queue.add(gateway_key(key.namespace), GATEWAY_SECONDS)
        if resource is not NODES:
            self.queue.add(key)
        elif self._nodes_timer is None:
            loop = asyncio.get_running_loop()
            self._nodes_timer = loop.call_later(NODES_SECONDS, self._nodes_changed)

    def _nodes_changed(self) -> None:
        self._nodes_timer = None
        self.resync(NODES_SECONDS)

    async def _work(self) -> None:
        await self.ready.wait()
        while not self._stopping:
            key = await self.queue.take()
            if self._stopping:
                return
            await self._reconcile(key)

    async def _reconcile(self, key: Key) -> None:
        began = time.monotonic()
        try:
            again = await self._work_on(key)
        except ApiError as error:
            unreachable = error.status == 0 or error.status >= 500 or error.status == 429
            pause = self.queue.failed(key, UNREACHABLE_SECONDS) if unreachable else self.queue.failed(key)
            outcome = "conflict" if error.conflict else "unreachable" if unreachable else "refused"
            if not error.conflict:
                log.warning(
                    "reconcile failed", service=str(key), error=str(error), again_after=round(pause, 1)
                )
        except LeaseLost:
            self.queue.failed(key, UNREACHABLE_SECONDS)
            outcome = "lease lost"
        except Exception as error:  # one service must never stop the others
            pause = self.queue.failed(key)
            outcome = "error"
            log.exception("reconcile failed", service=str(key), error=str(error), again_after=round(pause, 1))
        else:
            self.queue.done(key, again_after=again)
            outcome = "done"
        metrics.RECONCILES.labels(outcome).inc()
        metrics.DURATION.observe(time.monotonic() - began)

    async def _work_on(self, key: Key) -> float | None:
        if key != gateway_key(key.namespace):
            return await self._reconciler.reconcile(key)
        if not self.lease.held:
            raise LeaseLost
        return await self._namespaces.reconcile(key.namespace)

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

    async def _wait_for_crd(self) -> None:
        said = False
        while True:
            try:
                if await is_served(self._api, LLM_SERVICES):
                    return
                if not said:
                    log.error("the API server does not serve LLMServices: install Daybreak's CRDs")
                    said = True
            except ApiError as error:
                log.warning("cannot see whether LLMServices are served", error=str(error))
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
        """A part that ends by itself has failed: better to start afresh than to go on without it."""
        if self._stopping or task.cancelled() or (task.get_name() == "begin" and not task.exception()):
            return
        error = task.exception()
        log.error("a part of the operator has ended", part=task.get_name(), error=repr(error))
        self._lose()
