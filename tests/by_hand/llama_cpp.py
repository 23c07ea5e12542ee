"""llama.cpp's server, started as a ModelServer starts it, behind the real gateway: by hand (CONTRIBUTING.md).

Real: the program, HAProxy with its Lua, and the probe by which the operator checks that a model answers.
There is no Kubernetes: the test starts the container's command, and configures the gateway like its agent.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from daybreak.api.modelserver.definition import ModelServer
from daybreak.controller.asking.model_client import HttpModelClient
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.conftest import Bench, running
from tests.unit.modelserver.servers import LLAMA, server
from tests.unit.modelserver.test_objects import container

PROGRAM = Path(os.environ.get("LLAMA_SERVER", "llama-server"))
WEIGHTS = Path(os.environ.get("LLAMA_MODEL", "tiny.gguf"))
HOST = "127.0.0.1"
CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8}


class Engine:
    """One separate server, and the ModelServer that it belongs to."""

    def __init__(self, folder: Path, **engine_args: Any) -> None:
        spec = {
            **LLAMA,
            "model": {"name": "tiny", "source": f"file://{WEIGHTS.resolve()}"},
            "engineArgs": {"ctx_size": 2048, **engine_args},
        }
        self.server: ModelServer = server(**spec)
        self.port = self.server.profile.port
        self._args: list[str] = container(**spec)["args"]
        self._log = folder / "engine.log"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it answers where the kubelet asks."""
        with self._log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(PROGRAM, *self._args, stdout=log, stderr=log)
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            while not await self._well(session):
                assert self.process.returncode is None, self._log.read_text()[-2000:]
                await asyncio.sleep(0.1)

    async def _well(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"http://{HOST}:{self.port}{self.server.readiness_path}") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def answers(self) -> tuple[bool, str]:
        """Return True if the operator accepts the server's first answer, and the operator's message."""
        client = HttpModelClient()
        try:
            path = self.server.answer_path
            base = f"http://{HOST}:{self.port}{'' if path else '/v1'}"
            found = await client.ask(self.server, self.server.model, base, 30, path)
            return found.answered, found.message
        finally:
            await client.close()


@asynccontextmanager
async def engine(folder: Path, **engine_args: Any) -> AsyncIterator[Engine]:
    """One that ends with the test."""
    made = Engine(folder, **engine_args)
    try:
        yield made
    finally:
        if made.process is not None and made.process.returncode is None:
            made.process.kill()
            await made.process.wait()


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Bench]:
    async with running(tmp_path / "gw") as made:
        yield made


async def gate(bench: Bench, state: Gate) -> None:
    """Set the gate of the server."""
    bench.epoch += 1
    slot = Slot(
        service="tiny",
        gate=state,
        epoch=bench.epoch,
        models=("tiny",),
        replicas_listen=True,
        check="/health",
    )
    await bench.gateway.set_gate("s0", slot)


async def opened(bench: Bench, one: Engine) -> None:
    """The engine has answered: the gate opens."""
    await bench.gateway.set_servers("s0", [Server(HOST, one.port)])
    await gate(bench, Gate.OPEN)
    await bench.until(lambda state: state.servers_up == 1)


async def chat(bench: Bench, name: str, **more: Any) -> tuple[int, Mapping[str, Any]]:
    """Ask through the gateway; returns status and JSON of the answer."""
    async with bench.clients.post(
        f"{bench.url}/v1/chat/completions", json=CHAT | more, headers={"X-Request-Id": name}
    ) as answer:
        return answer.status, await answer.json()


async def test_request_held_before_engine_start_is_answered_by_engine(gateway: Bench, tmp_path: Path) -> None:
    async with engine(tmp_path) as one:
        await gate(gateway, Gate.CLOSED)
        asking = asyncio.create_task(chat(gateway, "held"))
        await gateway.until(lambda state: state.held == 1)
        await one.start()
        assert await one.answers() == (True, "")
        await opened(gateway, one)
        status, body = await asking
        assert (status, body["model"]) == (200, "tiny")
        assert body["usage"]["completion_tokens"] > 0
        async with gateway.clients.post(
            f"{gateway.url}/v1/chat/completions", json=CHAT | {"stream": True}
        ) as answer:
            assert (await answer.text()).strip().endswith("data: [DONE]")
        async with gateway.clients.get(
            f"http://{HOST}:{one.port}{one.server.profile.metrics_path}"
        ) as answer:
            assert "llamacpp:requests_processing" in await answer.text()


async def test_engine_exits_after_sigterm(gateway: Bench, tmp_path: Path) -> None:
    """The test prints the outcome of a request in progress: 0.5 cuts it off after 30 s."""
    async with engine(tmp_path) as one:
        await one.start()
        await opened(gateway, one)
        long = CHAT | {"stream": True, "max_tokens": 1500, "ignore_eos": True}
        async with gateway.clients.post(f"{gateway.url}/v1/chat/completions", json=long) as answer:
            await answer.content.readany()
            assert one.process is not None
            one.process.send_signal(signal.SIGTERM)
            try:
                rest = await answer.text()
            except aiohttp.ClientError as error:
                rest = repr(error)
        print(
            "in progress:", "answered" if rest.strip().endswith("data: [DONE]") else f"ended: {rest[-200:]}"
        )
        async with asyncio.timeout(60):
            assert await one.process.wait() in (0, -signal.SIGTERM)


async def test_embedding_engine_answers_embedding_request(gateway: Bench, tmp_path: Path) -> None:
    async with engine(tmp_path, embeddings=True, pooling="mean") as one:
        await one.start()
        assert await one.answers() == (True, "")
        await opened(gateway, one)
        requested = {"model": "tiny", "input": "Hello"}
        async with gateway.clients.post(f"{gateway.url}/v1/embeddings", json=requested) as answer:
            assert answer.status == 200
            assert len((await answer.json())["data"][0]["embedding"]) == 256
