"""What is played in `turns`: engines in the pods of fake nodes, Ray's heads, and Ray's autoscaler.

kwok gives its pods addresses that are made this machine's own meanwhile (which takes root's rights), and one
process listens at all of them: at the port of replicas it is the engine of the worker pod that has the
address, at that of Serve's proxy the head.
An engine starts so long after its pod runs, computes one request at a time, and takes as long for each as its
prompt says. With its pod goes what it computes, as in a cluster.
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
"""Of no pod or node of the embedded cluster. Loopback's own are refused in EndpointSlices."""
MODEL = "small"
LOOK_SECONDS = 0.2


@dataclass
class Engine:
    """The engine of one worker pod; times are of the monotonic clock."""

    cluster: str
    ready: float
    """When it has started."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    spans: list[tuple[float, float]] = field(default_factory=list)
    """When it computed a request, from and to."""

    @property
    def started(self) -> bool:
        """Whether it takes requests."""
        return time.monotonic() >= self.ready


@contextmanager
def addresses_here() -> Iterator[None]:
    """All of these addresses lead to this machine, until the block ends."""
    route = ["local", ADDRESSES, "dev", "lo"]
    run(["ip", "route", "replace", *route])
    try:
        yield
    finally:
        run(["ip", "route", "del", *route])


def prompt(number: int, seconds: float) -> str:
    """What an engine takes so long for."""
    return f"request {number} for {seconds:.3f}"


class Stage:
    """Everything that is played in one namespace.

    Args:
        admin: Its hands there.
        wake: Seconds from a pod that runs to its engine.

    Attributes:
        engines: All that there have ever been.
        computing: How many compute a request.
        most_gpus: Most GPUs that pods on nodes have asked for at once.
    """

    def __init__(self, admin: Admin, wake: float) -> None:
        self._admin = admin
        self._wake = wake
        self._there: dict[str, Engine] = {}
        """By the uid of the pod."""
        self._at: dict[str, Engine] = {}
        """By its address."""
        self._heads: dict[str, str] = {}
        """Ray clusters by the address of the head."""
        self.engines: list[Engine] = []
        self.computing = 0
        self.most_gpus = 0

    @property
    def moving(self) -> bool:
        """Whether an engine starts or computes."""
        return self.computing > 0 or any(not engine.started for engine in list(self._there.values()))

    def running(self, head: str) -> set[str]:
        """Worker groups with an engine, in the Ray cluster of a head Service's address (`PlayedServe`)."""
        cluster = head.split(".")[0].removesuffix("-head-svc")
        there = any(each.cluster == cluster and each.started for each in list(self._there.values()))
        return {names.worker_group(MODEL)} if there else set()

    @asynccontextmanager
    async def plays(self) -> AsyncIterator[None]:
        """Listen and look, until the block ends."""
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
        """The pods of Ray clusters; those of a group that is to have none are taken away."""
        # Pods before clusters: one that is listed was made before its cluster was looked at, so not by a wake
        # that came in between.
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
        """Serve's proxy: what comes for a model without a replica waits there."""
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
        said = (await request.json())["prompt"]
        number, _, seconds = said.removeprefix("request ").partition(" for ")
        if seconds:  # the operator's own question takes no time
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
    """The pod's that was asked."""
    assert request.transport is not None  # noqa: S101 -- it has just been read from
    address: str = request.transport.get_extra_info("sockname")[0]
    return address
