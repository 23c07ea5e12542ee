"""A ModelServer behind the real gateway: its gate as the operator writes it, and its pod."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import aiohttp

from daybreak.api.common import names
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.manifests.resources import PODS
from daybreak.protocol.reports import Report
from tests.gateway.engines.engine_process import HOST, EngineProcess, answers_200
from tests.gateway.village import Village

WAIT_SECONDS = 60
Answer = TypeVar("Answer")


class GatedEngine:
    """An engine, its gate and its pod."""

    def __init__(self, place: Village, engine: EngineProcess) -> None:
        self._place, self._engine = place, engine
        self._server = engine.server
        self._epoch = 0
        self._pod: dict[str, Any] = {}
        self.url = f"http://{HOST}:{place.config.first_port}"
        """Address of the service."""

    def _new_pod(self) -> dict[str, Any]:
        """Return a pod with a new name, as a Deployment creates it."""
        labels = names.labels(self._server.owner, names.SERVER_COMPONENT)
        labels |= {names.MODEL_LABEL: names.worker_group(self._server.model.name)}
        metadata = {
            "namespace": "ns", "name": f"{self._server.name}-server-{self._epoch}",
            "resourceVersion": str(self._epoch), "labels": labels,
        }  # fmt: skip
        return {"metadata": metadata, "status": {"podIP": HOST, "phase": "Running"}}

    async def _write(self, state: str) -> None:
        self._epoch += 1
        server, name = self._server, self._server.model.name
        gate = {"name": name, "state": state, "epoch": self._epoch, "phase": "Awake"}
        pods = {
            "cluster": server.owner, "port": self._engine.port, "healthPath": server.readiness_path,
            "weight": 100,
        }  # fmt: skip
        self._place.cache.put(
            MODEL_SERVERS,
            {
                "kind": "ModelServer",
                "metadata": {
                    "namespace": "ns", "name": server.name, "uid": server.uid, "creationTimestamp": "2",
                    "resourceVersion": str(self._epoch),
                },
                "spec": {"engine": server.spec.engine, "model": {"name": name}},
                "status": {
                    "gate": {
                        "port": self._place.config.first_port, "protocol": str(server.protocol),
                        "backends": [pods], "models": [gate | {"phaseTransitionTime": "now"}],
                    }
                },
            },
        )  # fmt: skip
        await self.until(lambda report: report.epoch == self._epoch)

    async def until(self, good: Callable[[Report], bool]) -> Report:
        """Wait for a report of the gateway."""
        name, last = f"{self._server.owner}/{self._server.model.name}", None
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    last = self._place.feed.update(-1).services.get(name)
                    if last is not None and good(last):
                        return last
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{name}: {last}") from None

    async def close(self) -> None:
        """Close the gate: the server sleeps."""
        await self._write("Closed")

    async def wake_for(self, request: Awaitable[Answer]) -> Answer:
        """Send a request to the sleeping server, wake the server, and return the answer."""
        held = asyncio.ensure_future(request)
        try:
            await self.until(lambda report: report.held == 1)
            await self._engine.start()
            assert await self._engine.probe() == (True, "")
            self._pod = self._new_pod()
            self._place.cache.put(PODS, self._pod)
            await self._write("Open")
            async with asyncio.timeout(WAIT_SECONDS):
                return await held
        finally:
            held.cancel()

    async def sleep(self) -> int:
        """Let the server sleep as the operator does, and return the exit status of the engine."""
        await self.close()
        self._place.cache.drop(PODS, self._pod)
        status = await self._engine.stop()
        async with aiohttp.ClientSession() as session:
            assert not await answers_200(session, f"http://{HOST}:{self._engine.port}/")
        return status
