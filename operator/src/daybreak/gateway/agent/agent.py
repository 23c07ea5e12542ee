"""Agent of a gateway pod: it watches the cluster, configures HAProxy, and ends without cutting a request."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any

import structlog

from daybreak.api.common import names
from daybreak.api.common.unstructured import at, text
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.schema.resource import Resource
from daybreak.gateway.agent.beats import Heartbeat
from daybreak.gateway.agent.enforcement import EnforcementWatch
from daybreak.gateway.agent.feed import LOOK_SECONDS, STALE_SECONDS, Feed
from daybreak.gateway.agent.fullness import FullnessWatch
from daybreak.gateway.agent.programmer import Programmer
from daybreak.gateway.agent.settings import Settings
from daybreak.gateway.desired.workloads import WORKLOADS
from daybreak.gateway.haproxy.processes import GatewayFailed, HaproxyHangs, SupervisedProcess, ask
from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.keys import KeyFiles
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.router.router import Router
from daybreak.gateway.router.routes import RouteKeeper
from daybreak.kube.client import Api
from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.reflector import Reflector
from daybreak.manifests.resources import PODS

PODS_OF_OURS = names.OWNER_KIND_LABEL
"""Selector of pods that receive requests: workers with replicas, heads with Serve's proxy, and engines of
ModelServers. A few other pods of Daybreak match too."""
SILENT_SECONDS = 10.0
"""Seconds without a response after which a HAProxy is unhealthy."""
ROUTER_LOOK_SECONDS = 2.0
"""Seconds between two probes of the router."""
ROUTES_SECONDS = 10.0
"""Maximum seconds to wait for the namespace's routes at the start."""
REFUSE_SECONDS = 5.0
"""Maximum seconds at the end until all held requests have been rejected with a request to retry."""

STOPPED_PARTS = ("HAProxy", "router", "router looks")
"""Parts that end by themselves after they are stopped."""

log = structlog.get_logger("daybreak.gateway")


class KeepingCache(Cache):
    """Cache that keeps its content when a permission is revoked.

    A gateway without services would reject requests.
    """

    def clear(self, resource: Resource, namespace: str | None = None) -> None:
        """Keep the content."""


class Agent:
    """Agent of one gateway. HAProxy continues when the agent ends, and the next agent adopts it."""

    def __init__(self, settings: Settings, api: Api, beats: Heartbeat) -> None:
        self._settings = settings
        self._beats = beats
        self._processes = [SupervisedProcess(beats.socket, name) for name in ("hold", "router", "late")]
        hold, router, late = self._processes
        self.gateway = Gateway(settings.haproxy, hold)
        self.router = Router(settings.router, router, late)
        self.feed = Feed(self.gateway)
        cache, keys = KeepingCache(), KeyFiles(settings.keys_folder)
        self._programmer = Programmer(
            cache,
            self.gateway,
            namespace=settings.namespace,
            ports=settings.ray_ports,
            keys=keys,
            on_programmed=self.feed.poke,
        )
        ports = range(settings.first_port, settings.first_port + settings.slots)
        self._routes = RouteKeeper(cache, self.router, namespace=settings.namespace, ports=ports, keys=keys)
        self._reflectors = [
            *(Reflector(api, cache, each, namespace=settings.namespace) for each in WORKLOADS),
            Reflector(api, cache, PODS, namespace=settings.namespace, selector=PODS_OF_OURS),
        ]
        self._route_reflector = Reflector(api, cache, LLM_ROUTES, namespace=settings.namespace)
        self.fullness = FullnessWatch(self.gateway, self.router, lambda: beats.memory)
        self.enforcement = EnforcementWatch(lambda: ray_heads(cache, settings.namespace))
        self.shared: Mapping[str, Mapping[str, int]] = {}
        """Requests of routes by destination: by route, and then by `service/model`."""
        self._tasks: list[asyncio.Task[Any]] = []
        self._read = asyncio.Event()
        """Set when all services and pods have been read once."""
        self._failed = asyncio.Event()
        self._draining = asyncio.Event()
        self._draining_since = settings.draining_since
        if settings.draining_since is not None:
            self._draining.set()
        self._stopping = False
        self._finished = False
        """True if the gateway has ended, and HAProxy with it."""
        self._started = float("inf")
        """Start time of the last HAProxy, on the monotonic clock."""
        self._router_report_time = float("-inf")
        """Time of the router's latest response, on the monotonic clock."""

    @property
    def programmed(self) -> bool:
        """True if every service that existed at the start is configured, and its state is known."""
        return self.feed.received > self._programmer.completed

    @property
    def unready(self) -> str:
        """Reason why requests should not be sent to this pod, or empty if they may."""
        if self._draining.is_set():
            return "draining"
        # After one complete read the agent uses it, also if the permission to read is revoked.
        if not self._read.is_set():
            return "reading what is in the cluster"
        if not (self.programmed and self._routes.reported):
            return "programming HAProxy"
        return self.unhealthy

    @property
    def unhealthy(self) -> str:
        """Reason for a restart of HAProxy, or empty if it works."""
        silent = "" if self._draining.is_set() else self._silent
        return f"{silent} has not answered for {SILENT_SECONDS:.0f} s" if silent else ""

    @property
    def _silent(self) -> str:
        """HAProxy that has not responded for too long, or empty if all respond."""
        if self._silent_for(self.feed.received):
            return "HAProxy"
        return "the router" if self._silent_for(self._router_report_time) else ""

    def _silent_for(self, received: float) -> bool:
        return time.monotonic() - max(received, self._started) > SILENT_SECONDS

    def drain(self, since: float = 0.0) -> None:
        """End after the current requests.

        Call it when the HAProxies have begun to drain, `since` seconds ago.
        """
        if not self._draining.is_set():
            log.info("Draining")
            self._draining_since = time.monotonic() - since
            self._draining.set()

    async def run(self) -> int:
        """Run until `drain` and the end of all requests, or until a part fails. Returns the exit status."""
        self._spawn("beats", self._beats.run(self._state, self.drain))
        for reflector in (*self._reflectors, self._route_reflector):
            self._spawn("watch", reflector.run())
        try:
            if await self._let_finish():
                return 0
            if not await self._take_over() and not await self._start():
                return int(self._failed.is_set())
            self._started = time.monotonic()
            self._spawn("HAProxy", self.gateway.wait())
            self._spawn("router", self.router.wait())
            self._spawn("router looks", self._look_at_router())
            self._spawn("programming", self._program())
            self._spawn("feed", self.feed.run())
            self._spawn("fullness", self.fullness.run())
            self._spawn("enforcement", self.enforcement.run())
            await self._first(self._draining.wait(), self._failed.wait())
            if not self._failed.is_set():
                await self._drain()
            self._finished = not self._failed.is_set()
            return int(self._failed.is_set())
        except HaproxyHangs as error:
            log.error("HAProxy hung", error=str(error))
            await self._write("give up", why=str(error))
            return 1
        except (GatewayFailed, RuntimeApiError) as error:
            log.error("HAProxy is not running", error=str(error))
            return 1
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._leave()

    def _state(self) -> tuple[str, str]:
        return self.unready, self.unhealthy

    async def _let_finish(self) -> bool:
        """Wait for the last requests if a previous agent has stopped the HAProxy that holds.

        No request is held by then, and there is no socket for an adoption. Returns False otherwise.
        """
        observed = [await process.look() for process in self._processes]
        hold = observed[0]
        if hold is None or not hold.stopping or hold.ended is not None:
            return False
        for process, status in zip(self._processes, observed, strict=True):
            if status is not None:
                await process.signal(signal.SIGUSR1)
                await process.wait()
        self._finished = True
        return True

    async def _write(self, what: str, **more: str) -> None:
        """Send a message to the supervisor of the HAProxies, which may have ended."""
        with contextlib.suppress(GatewayFailed):
            await ask(self._beats.socket, {"do": what, **more})

    async def _take_over(self) -> bool:
        """Adopt the HAProxies of a previous agent. Returns True if all exist."""
        if not await self.gateway.adopt():
            return False
        await self._programmer.adopt()
        if not await self.router.adopt():
            return False
        if self.router.stopping:
            self._look_no_more()
        return True

    async def _start(self) -> bool:
        """Start the missing HAProxies. Returns False if the agent must end before."""
        await self._first(self._synced(), self._draining.wait(), self._failed.wait())
        if self._failed.is_set() or self._draining.is_set():
            return False
        # Only after the read: clients retry a port without a listener, but not a 404.
        if not await self.gateway.runs():
            await self.gateway.start()
        await self.router.start()
        return True

    async def _program(self) -> None:
        await self._synced()
        await asyncio.gather(self._routes.run(), self._programmer.run())

    async def _leave(self) -> None:
        """Kill HAProxy if the gateway has ended; leave it running if only this agent ends."""
        if self._finished:
            with contextlib.suppress(GatewayFailed):  # their container has ended as well
                await self.router.kill()
                await self.gateway.kill()
        else:
            self.router.leave()
            await self.gateway.leave()
        if self._draining.is_set() and not self._failed.is_set():
            await self._write("leave")

    async def _drain(self) -> None:
        """Wait until no new requests arrive, and then until the current ones have finished."""
        # The drain may have begun under a previous agent.
        left = (self._draining_since or time.monotonic()) + self._settings.leave_seconds
        until = left + self._settings.drain_seconds
        announcing = asyncio.create_task(self._announce_end())
        try:
            await self._first(asyncio.sleep(left - time.monotonic()), self._failed.wait())
            # A stopping HAProxy accepts no new servers and checks none, so it would never release requests
            # for a model that is not ready yet. Therefore it continues until no client is connected.
            await self._first(
                self._clients_gone(until),
                asyncio.sleep(until - time.monotonic()),
                self._failed.wait(),
                self._hung(),
            )
        finally:
            announcing.cancel()
        if self._failed.is_set():
            return
        if self._silent_for(self.feed.received):
            log.warning("HAProxy did not respond, held requests are lost")
            return
        try:
            # A HAProxy that does not respond must not keep the pod for longer than the drain may take.
            async with asyncio.timeout(max(0.0, until - time.monotonic()) + REFUSE_SECONDS):
                if self._held():
                    log.warning("Rejecting requests still held", seconds=self._settings.drain_seconds)
                    await self._programmer.refuse()
                    await self._nobody_held()
                # The router first: the gateway serves the requests that it still forwards.
                finished = await self._stop_router(until)
                finished &= await self.gateway.stop(max(1.0, until - time.monotonic()))
                finished &= await self.router.stop_late(max(1.0, until - time.monotonic()))
        except TimeoutError:
            finished = False
        if finished:
            log.info("Finished all requests")
        else:
            log.warning("Ended before all requests had finished", seconds=self._settings.drain_seconds)

    async def _announce_end(self) -> None:
        """Announce the end of the connection in all responses, so that clients stop using it."""
        for part in (self.router, self.gateway):
            while not (part is self.router and self.router.stopping):
                try:
                    await part.set_closing()
                    break
                except RuntimeApiError as error:
                    log.warning("Failed to announce the end of connections", err=str(error))
                    await asyncio.sleep(ROUTER_LOOK_SECONDS)

    async def _clients_gone(self, until: float) -> None:
        """Stop the router, which is a client of the gateway, and wait until no client is connected."""
        if not self.router.stopping:
            await self._no_client(self.router)
        await self._stop_router(until)
        await self._no_client(self.gateway)

    async def _no_client(self, part: Gateway | Router) -> None:
        # A connection that was accepted and not yet counted is served anyway, see close-spread-time.
        while not (part is self.router and self._silent_for(self._router_report_time)):
            with contextlib.suppress(RuntimeApiError):
                if not await part.clients():
                    return
            await asyncio.sleep(LOOK_SECONDS)

    def _look_no_more(self) -> None:
        """Stop probing the router: once it is stopping, it would wait for this connection."""
        self._stopping = True
        self.fullness.stop()

    async def _stop_router(self, until: float) -> bool:
        """Stop the router within that time. Returns True if all requests finished."""
        self._look_no_more()
        patience = 0.0 if self._silent_for(self._router_report_time) else until - time.monotonic()
        return await self.router.stop(max(1.0, patience))

    def _held(self) -> bool:
        return any(state.held for state in self.feed.states.values())

    async def _nobody_held(self) -> None:
        while self.feed.age > STALE_SECONDS or self._held():  # noqa: ASYNC110 -- HAProxy cannot call back
            await asyncio.sleep(LOOK_SECONDS)

    async def _hung(self) -> None:
        """Wait until HAProxy has not responded for too long and will not finish its requests."""
        while not self._silent_for(self.feed.received):  # noqa: ASYNC110 -- silence has no event
            await asyncio.sleep(LOOK_SECONDS)

    async def _look_at_router(self) -> None:
        # Not while it is stopping: it would wait for this connection.
        while not self._stopping:
            try:
                await self.router.look()
                self.shared = await self.router.shares()
                self.feed.notify(await self.router.tallies())
                self._router_report_time = time.monotonic()
            except RuntimeApiError as error:
                log.warning("Router did not respond", error=str(error))
            await asyncio.sleep(ROUTER_LOOK_SECONDS)

    async def _synced(self) -> None:
        for reflector in self._reflectors:
            await reflector.synced.wait()
            # Without the permission to read, every service would be unknown.
            while not reflector.permitted:  # noqa: ASYNC110 -- a reflector has no event for it
                await asyncio.sleep(LOOK_SECONDS)
        # Without the permission to read routes, or without their CRD, services are served anyway.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ROUTES_SECONDS):
                await self._route_reflector.synced.wait()
        self._read.set()

    async def _first(self, *waits: Coroutine[Any, Any, Any] | asyncio.Task[Any]) -> None:
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()

    def _spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Handle the end of a part of the agent.

        It is a failure unless the part was stopped: a restart is better than continuing without it.
        """
        if task.cancelled() or (self._stopping and task.get_name() in STOPPED_PARTS):
            return
        log.error("Part of the gateway ended", part=task.get_name(), how=_how(task))
        self._failed.set()


def ray_heads(cache: Cache, namespace: str) -> Iterator[str]:
    """Yield the addresses of the running Ray heads of a namespace."""
    for key in cache.keys(PODS):
        pod = cache.get(PODS, key) if key.namespace == namespace else None
        if pod is None or at(pod, "metadata", "labels").get(names.RAY_NODE_TYPE_LABEL) != "head":
            continue
        status = at(pod, "status")
        if status.get("phase") == "Running" and text(status.get("podIP")):
            yield text(status.get("podIP"))


def _how(task: asyncio.Task[Any]) -> str:
    error = task.exception()
    return repr(error) if error is not None else f"exit status {task.result()}"
