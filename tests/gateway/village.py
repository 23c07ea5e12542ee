"""A gateway with its programmer, as the agent has them, before a service that is written into the cache."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp

from daybreak.api.common import names
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.gateway.agent.feed import Feed
from daybreak.gateway.agent.programmer import Programmer
from daybreak.gateway.desired.gates import Ports
from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.keys import KeyFiles
from daybreak.gateway.hold.process import Gateway
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.resources import PODS
from daybreak.protocol.reports import Report
from tests.gateway.fake_serve import FakeServe
from tests.gateway.ports import free_ports

SLOTS = 4
PATH = "/v1/chat/completions"


class Village:
    """One service in slot 0 with models, each with one replica; Serve's proxy runs in addition."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.cache = Cache()
        self.config = GatewayConfig(
            folder=folder / "gw",
            address="127.0.0.1",
            first_port=free_ports(SLOTS),
            slots=SLOTS,
            max_connections=1000,
            head_timeout=60,
            **settings,
        )
        self.gateway = Gateway(self.config)
        self.feed = Feed(self.gateway)
        self.port = free_ports(1)
        self.programmer = Programmer(
            self.cache,
            self.gateway,
            namespace="ns",
            ports=Ports(serve=self.port, replica=self.port),
            keys=KeyFiles(folder / "keys"),
            on_programmed=self.feed.poke,
        )
        self.spec: dict[str, Any] = {}
        self.backends: list[dict[str, Any]] = [{"cluster": "c", "weight": 100}]
        self.replicas: dict[str, FakeServe] = {}
        self.clients: aiohttp.ClientSession
        self._gates: dict[str, dict[str, Any]] = {}
        self._epoch = 0
        self._hosts = itertools.count()
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.gateway.start()
        self.clients = await self._stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        )
        self.proxy = await self._serve("head", None)
        self._tasks = [asyncio.create_task(run()) for run in (self.programmer.run, self.feed.run)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()
        await self.gateway.kill()

    async def replica(self, model: str, cluster: str = "c") -> FakeServe:
        """Make a worker pod of a model, the only one of the cluster."""
        made = await self._serve(f"worker-{model}-{cluster}".replace("/", "-"), model, cluster)
        self.replicas.setdefault(model, made)
        return made

    async def _serve(self, name: str, model: str | None, cluster: str = "c") -> FakeServe:
        host = f"127.0.0.{10 + next(self._hosts)}"
        serve = await self._stack.enter_async_context(FakeServe(host, self.port))
        labels = {**names.owner_labels("tiny"), "ray.io/cluster": cluster, "ray.io/node-type": "head"}
        if model is not None:
            labels |= {"ray.io/node-type": "worker", names.MODEL_LABEL: names.worker_group(model)}
        self._epoch += 1
        metadata = {"namespace": "ns", "name": name, "resourceVersion": str(self._epoch), "labels": labels}
        self.cache.put(PODS, {"metadata": metadata, "status": {"podIP": host, "phase": "Running"}})
        return serve

    def write(self, **gates: Any) -> None:
        """Write the states of models' gates as the operator does; None: the model has gone."""
        for name, state in gates.items():
            model = name.replace("__", "/")
            self._epoch += 1
            if state is None:
                self._gates.pop(model, None)
                continue
            entry = {
                "name": model,
                "epoch": self._epoch,
                "holdSeconds": 300,
                "phase": "Awake",
                "phaseTransitionTime": "now",
            }
            more = state if isinstance(state, dict) else {"state": state}
            self._gates[model] = entry | more
        self._epoch += 1
        models = [{"name": name, **self.spec.get(name, {})} for name in self._gates]
        rest = {
            key: value for key, value in self.spec.items() if key in ("access", "hold", "runtime", "sleep")
        }
        gate = {
            "port": self.config.first_port,
            "backends": self.backends,
            "models": list(self._gates.values()),
        }
        self.cache.put(
            LLM_SERVICES,
            {
                "metadata": {
                    "namespace": "ns",
                    "name": "tiny",
                    "uid": "tiny",
                    "creationTimestamp": "1",
                    "resourceVersion": str(self._epoch),
                },
                "spec": {"models": models, **rest},
                "status": {"gate": gate},
            },
        )

    def gone(self) -> None:
        """Delete the service."""
        self._gates.clear()
        self._epoch += 1
        metadata = {"namespace": "ns", "name": "tiny", "resourceVersion": str(self._epoch)}
        self.cache.drop(LLM_SERVICES, {"metadata": metadata})

    async def gate(self, **gates: Any) -> None:
        """Write the states of models' gates, and wait until all are applied and their replicas are up."""
        self.write(**gates)
        for model, entry in self._gates.items():
            up = model in self.replicas and entry["state"] == "Open"
            await self.until(
                model,
                lambda report, entry=entry, up=up: (  # type: ignore[misc]
                    report.epoch == entry["epoch"] and (not up or report.servers_up > 0)
                ),
            )
        if len(self._gates) > 1:
            await self.until("", lambda report: report.servers_up > 0)

    def report(self, model: str = "") -> Report | None:
        """Return the gateway's report about a model's gate, or about the front."""
        return self.feed.update(-1).services.get(f"tiny/{model}" if model else "tiny")

    async def until(self, model: str, good: Callable[[Report], bool], seconds: float = 30) -> Report:
        """Wait for a report."""
        last = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    last = self.report(model)
                    if last is not None and good(last):
                        return last
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{model or 'the front'}: {last}") from None

    async def ask(self, name: str, body: Any, path: str = PATH, **headers: str) -> tuple[int, Any]:
        """Send one request; returns the status and the JSON of the answer."""
        url = f"http://127.0.0.1:{self.config.first_port}{path}"
        async with self.clients.post(url, data=body, headers={"X-Request-Id": name} | headers) as answer:
            return answer.status, await answer.json()

    def begin(
        self, name: str, body: Any, path: str = PATH, **headers: str
    ) -> "asyncio.Task[tuple[int, Any]]":
        """Send one request that need not be answered yet."""
        return asyncio.create_task(self.ask(name, body, path, **headers))

    async def stream(self, body: bytes) -> bytes:
        """Send one request that is answered with a stream; returns all of it."""
        url = f"http://127.0.0.1:{self.config.first_port}/v1/completions"
        async with self.clients.post(url, data=body, headers={"X-Request-Id": "stream"}) as answer:
            return await answer.read()

    def observed(self) -> dict[str, Counter[str]]:
        """Return the requests that each replica has had, and Serve's proxy under `proxy`."""
        return {name: serve.observed for name, serve in self.replicas.items()} | {
            "proxy": self.proxy.observed
        }


@asynccontextmanager
async def village(folder: Path, *models: str, **settings: Any) -> AsyncIterator[Village]:
    """Yield a village with replicas of these models."""
    async with Village(folder, **settings) as made:
        for model in models:
            await made.replica(model)
        yield made
