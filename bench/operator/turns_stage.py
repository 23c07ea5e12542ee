"""Simulated parts of `turns`: engines in the pods of simulated nodes, Ray heads, and Ray's autoscaler.

kwok gives its pods addresses that this machine owns for the duration of the run, which requires root. One
process listens at all of them. The port of replicas is the engine of the worker pod with the address; the
port of Serve's proxy is the head. An engine starts a fixed time after its pod runs, computes one request at a
time, and takes the time that the request's prompt states. If its pod goes, its computation is lost, as in a
cluster.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from cluster.tools.programs import run
from daybreak.api.common import names
from daybreak.ray.ports import DIRECT, SERVE
from tests.api.admin import Admin, Refused
from tests.gpu.looks import gpus, node_of

ADDRESSES = "198.18.128.0/20"
"""Addresses outside the pods and nodes of the embedded cluster. EndpointSlices reject loopback addresses."""
MODEL = "small"
LOOK_SECONDS = 0.2


@dataclass
class Engine:
    """Engine of one worker pod, with times of the monotonic clock."""

    cluster: str
    ready: float
    """Time at which the engine has started."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    spans: list[tuple[float, float]] = field(default_factory=list)
    """Begin and end of each computed request."""

    @property
    def started(self) -> bool:
        """Return True if the engine accepts requests."""
        return time.monotonic() >= self.ready


@contextmanager
def addresses_here() -> Iterator[None]:
    """Route all of these addresses to this machine until the block ends."""
    route = ["local", ADDRESSES, "dev", "lo"]
    run(["ip", "route", "replace", *route])
    try:
        yield
    finally:
        run(["ip", "route", "del", *route])


def prompt(number: int, seconds: float) -> str:
    """Return a prompt that takes an engine a number of seconds."""
    return f"request {number} for {seconds:.3f}"


class Stage:
    """All simulated parts of one namespace.

    Args:
        admin: Client for the namespace.
        wake: Seconds from a running pod to its started engine.

    Attributes:
        engines: All engines since the beginning.
        computing: Number of engines that compute a request.
        most_gpus: Maximum number of GPUs that pods on nodes have requested at once.
    """

    def __init__(self, admin: Admin, wake: float) -> None:
        self._admin = admin
        self._wake = wake
        self._there: dict[str, Engine] = {}
        """Engines by the UID of the pod."""
        self._at: dict[str, Engine] = {}
        """Engines by the address of the pod."""
        self._heads: dict[str, str] = {}
        """Ray clusters by the address of the head."""
        self.engines: list[Engine] = []
        self.computing = 0
        self.most_gpus = 0

    @property
    def moving(self) -> bool:
        """Return True if an engine starts or computes."""
        return self.computing > 0 or any(not engine.started for engine in list(self._there.values()))

    def running(self, head: str) -> set[str]:
        """Return the worker groups with an engine, by the address of the head Service (`PlayedServe`)."""
        cluster = head.split(".")[0].removesuffix("-head-svc")
        there = any(each.cluster == cluster and each.started for each in list(self._there.values()))
        return {names.worker_group(MODEL)} if there else set()

    @asynccontextmanager
    async def plays(self) -> AsyncIterator[None]:
        """Listen and poll until the block ends."""
        runners = []
        for port, handler in ((DIRECT, self._replica), (SERVE, self._head)):
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", handler)
            runner = web.AppRunner(app, shutdown_timeout=1)
            await runner.setup()
            await web.TCPSite(runner, "0.0.0.0", port, backlog=1024).start()  # noqa: S104 -- this machine's own
            runners.append(runner)
        looking = asyncio.create_task(self._look())
        try:
            yield
            if looking.done():
                looking.result()
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            for runner in runners:
                await runner.cleanup()

    async def _look(self) -> None:
        while True:
            pods = await asyncio.to_thread(self._pods_and_autoscaler)
            heads, there = {}, {}
            for pod in pods:
                labels, address = pod["metadata"]["labels"], pod["status"].get("podIP")
                if not address or pod["status"].get("phase") != "Running":
                    continue
                cluster = labels[names.RAY_CLUSTER_LABEL]
                if labels.get(names.RAY_NODE_TYPE_LABEL) == "head":
                    heads[address] = cluster
                    continue
                uid = pod["metadata"]["uid"]
                engine = self._there.get(uid)
                if engine is None:
                    engine = Engine(cluster, time.monotonic() + self._wake)
                    self.engines.append(engine)
                there[uid] = engine
                self._at[address] = engine
            for uid, engine in self._there.items():
                if uid not in there:
                    engine.gone.set()
            self._heads, self._there = heads, there
            self._at = {address: each for address, each in self._at.items() if not each.gone.is_set()}
            held = sum(gpus(pod) for pod in pods if node_of(pod))
            self.most_gpus = max(self.most_gpus, held)
            await asyncio.sleep(LOOK_SECONDS)

    def _pods_and_autoscaler(self) -> list[Any]:
        """Return the pods of Ray clusters, after deleting those of worker groups with `maxReplicas: 0`."""
        # List pods before clusters: a listed pod then existed before its cluster was read, so no wake in
        # between has created it.
        pods = self._admin.list("Pod", labelSelector=names.RAY_CLUSTER_LABEL)
        none = {
            (cluster["metadata"]["name"], group["groupName"])
            for cluster in self._admin.list("RayCluster")
            for group in cluster["spec"].get("workerGroupSpecs", ())
            if group["maxReplicas"] == 0
        }
        for pod in pods:
            labels = pod["metadata"]["labels"]
            if (labels[names.RAY_CLUSTER_LABEL], labels.get("ray.io/group")) in none:
                with contextlib.suppress(Refused):
                    self._admin.delete("Pod", pod["metadata"]["name"])
        return list(pods)

    async def _replica(self, request: web.Request) -> web.StreamResponse:
        engine = self._at.get(_address(request))
        if engine is None or not engine.started:
            return web.Response(status=503)
        return (
            web.Response(text="success") if request.method == "GET" else await self._answer(engine, request)
        )

    async def _head(self, request: web.Request) -> web.StreamResponse:
        """Answer as Serve's proxy, where requests for a model without a replica wait."""
        if request.path == "/v1/models":
            return web.json_response({"object": "list", "data": [{"id": MODEL}]})
        if request.method == "GET":
            return web.Response(text="success")
        cluster = self._heads.get(_address(request))
        while True:
            for engine in self._there.values():
                if engine.cluster == cluster and engine.started:
                    return await self._answer(engine, request)
            await asyncio.sleep(LOOK_SECONDS)

    async def _answer(self, engine: Engine, request: web.Request) -> web.StreamResponse:
        message = (await request.json())["prompt"]
        number, _, seconds = message.removeprefix("request ").partition(" for ")
        if seconds:  # a probe of the operator takes no time
            async with engine.turn:
                began = time.monotonic()
                self.computing += 1
                try:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(engine.gone.wait(), float(seconds))
                finally:
                    self.computing -= 1
                    engine.spans.append((began, time.monotonic()))
        if engine.gone.is_set():
            assert request.transport is not None  # noqa: S101 -- it has just been read from
            request.transport.abort()
        return web.json_response({"object": "text_completion", "choices": [{"text": f"answer {number}"}]})


def _address(request: web.Request) -> str:
    """Return the address of the pod that received the request."""
    assert request.transport is not None  # noqa: S101 -- it has just been read from
    address: str = request.transport.get_extra_info("sockname")[0]
    return address
