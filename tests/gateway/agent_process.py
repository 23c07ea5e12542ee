"""A gateway's processes as they run in the two containers of a pod, and what a test asks of them."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from daybreak.protocol.reports import Report, Update
from tests.compiled_once import COMPILED_ONCE
from tests.gateway.ports import free_ports

SOURCES = Path(__file__).resolve().parents[2] / "operator" / "src"
SLOTS = 8
ROUTER = -1
"""In place of a slot: the address that all models share."""
OWN = -2
"""In place of a slot: the own address of a route."""


class AgentProcess:
    """Both programs of `python -m daybreak.gateway` before the services of one namespace."""

    def __init__(
        self,
        kubeconfig: Path,
        namespace: str,
        folder: Path,
        serve_port: int,
        drain_seconds: int,
        beside: "AgentProcess | None" = None,
    ) -> None:
        self.address = "127.0.0.2" if beside else "127.0.0.1"
        """Address of the pod. A pod started `beside` another one uses the same ports."""
        self.route_port: int = beside.route_port if beside else free_ports(SLOTS + 2)
        self.router_port: int = self.route_port + 1
        self.first_port: int = self.router_port + 1
        self._made_of = (kubeconfig, namespace, folder, serve_port, drain_seconds)
        self._log = folder / "agent.log"
        self.token_file = folder / "token"
        """Path at which the kubelet would put the token that the agent shows to the operator."""
        self.http_port = free_ports(1)
        self.health_port = free_ports(1)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("KUBE")},
            **COMPILED_ONCE,
            "KUBECONFIG": str(kubeconfig),
            "PYTHONPATH": str(SOURCES),
            "POD_NAMESPACE": namespace,
            "GATEWAY_HTTP_PORT": str(self.http_port),
            "GATEWAY_HEALTH_PORT": str(self.health_port),
            "GATEWAY_FIRST_PORT": str(self.first_port),
            "GATEWAY_SLOTS": str(SLOTS),
            "GATEWAY_ROUTER_PORT": str(self.router_port),
            "GATEWAY_ROUTE_FIRST_PORT": str(self.route_port),
            "GATEWAY_ROUTE_SLOTS": "1",
            "GATEWAY_SERVE_PORT": str(serve_port),
            "GATEWAY_ADDRESS": self.address,
            "GATEWAY_FOLDER": str(folder / "gw"),
            "GATEWAY_LEAVE_SECONDS": "1",
            "GATEWAY_DRAIN_SECONDS": str(drain_seconds),
            "GATEWAY_TOKEN_FILE": str(self.token_file),
            "LOG_LEVEL": "debug",
        }
        self._clients: aiohttp.ClientSession
        self.process: asyncio.subprocess.Process
        """The first program of HAProxy's container."""
        self.keeper: asyncio.subprocess.Process
        """Supervisor process of the agent."""

    def another(self, name: str) -> "AgentProcess":
        """Return another pod of the same Deployment, not started."""
        kubeconfig, namespace, folder, serve_port, drain_seconds = self._made_of
        (folder / name).mkdir()
        return type(self)(kubeconfig, namespace, folder / name, serve_port, drain_seconds, self)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["AgentProcess"]:
        """Start both, wait until it is ready, and end them afterwards."""
        self.keeper = await self._start("agent")
        await self.start_haproxy()
        self._clients = aiohttp.ClientSession()
        try:
            await self.until_page("/readyz", 200)
            yield self
        finally:
            await self._clients.close()
            self.end()
            for process in (self.process, self.keeper):
                try:
                    async with asyncio.timeout(20):
                        await process.wait()
                except TimeoutError:
                    process.kill()
                    await process.wait()

    async def start_haproxy(self) -> None:
        """Start HAProxy's container, as the kubelet does it also after its end."""
        self.process = await self._start("haproxy")

    async def _start(self, program: str) -> asyncio.subprocess.Process:
        command = [*self.before(program), sys.executable, "-m", "daybreak.gateway", program]
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *command, env=self._environment, stdout=log, stderr=log
            )

    def before(self, program: str) -> list[str]:
        """Return the start of the command that runs a program and becomes it."""
        del program
        return []

    def end(self) -> None:
        """Tell both to end, as the kubelet does when the pod is to end."""
        for process in (self.process, self.keeper):
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)

    async def kill(self) -> None:
        """End both at once, as when the node is gone."""
        for process in (self.keeper, self.process):
            process.kill()
            await process.wait()

    async def ended(self, seconds: float = 30) -> tuple[int, int]:
        """Wait for both. Returns the exit statuses, first that of HAProxy's container."""
        async with asyncio.timeout(seconds):
            return await self.process.wait(), await self.keeper.wait()

    @property
    def haproxy(self) -> int:
        """Return the process of the HAProxy that holds requests."""
        return self._child("haproxy.cfg").pid

    @property
    def router(self) -> int:
        """Return the process of the router."""
        return self._child("router.cfg").pid

    @property
    def late(self) -> int:
        """Return the process of the router's other half, with large buffers."""
        return self._child("late.cfg").pid

    @property
    def agent(self) -> int:
        """Return the process of the agent."""
        return self._child("daybreak.gateway.agent", self.keeper).pid

    def agent_or_none(self) -> int | None:
        """Return the process id of the agent, or None between two agents."""
        with suppress(StopIteration, psutil.NoSuchProcess):
            return self.agent
        return None

    def _child(self, word: str, parent: asyncio.subprocess.Process | None = None) -> psutil.Process:
        """Return the child whose last argument ends with `word`, of the supervisor if `parent` is None."""
        children = psutil.Process((parent or self.process).pid).children()
        return next(
            child for child in children if child.cmdline()[-1:] and child.cmdline()[-1].endswith(word)
        )

    async def replaced(self, old: int, seconds: float = 60) -> int:
        """Wait until another agent than that one has come to work. Returns its process."""
        async with asyncio.timeout(seconds):
            while True:
                agent = self.agent_or_none()
                if agent not in (old, None) and (await self.page("/state", only_head=True))[0] == 200:
                    return self.agent
                assert self.process.returncode is None, self.log()[-3000:]
                await asyncio.sleep(0.05)

    def log(self) -> str:
        """Return the log of the process."""
        return self._log.read_text(errors="replace")

    async def page(self, path: str, only_head: bool = False) -> tuple[int, str]:
        """Return a page of the supervisor or of the agent; status 0 if no process listens."""
        port = self.health_port if path in ("/healthz", "/readyz") else self.http_port
        try:
            async with self._clients.get(f"http://127.0.0.1:{port}{path}") as answer:
                return answer.status, "" if only_head else await answer.text()
        except aiohttp.ClientConnectionError:
            return 0, ""

    async def until_page(self, path: str, status: int, seconds: float = 120) -> str:
        """Wait until a page has this status; returns its text."""
        async with asyncio.timeout(seconds):
            while True:
                found, text = await self.page(path)
                if found == status:
                    return text
                assert self.process.returncode is None, self.log()[-3000:]
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[AsyncIterator[Update]]:
        """Yield the agent's stream of states."""
        # No time-out as a whole, but one line a second is promised.
        limits = aiohttp.ClientTimeout(total=None, sock_read=20)
        url = f"http://127.0.0.1:{self.http_port}/state"
        async with self._clients.get(url, timeout=limits) as answer:
            assert answer.status == 200, await answer.text()

            async def lines() -> AsyncIterator[Update]:
                async for line in answer.content:
                    yield Update.parse(json.loads(line))

            yield lines()

    async def until(self, service: str, good: Callable[[Report], bool], seconds: float = 120) -> Report:
        """Wait until the stream reports a matching state of a service."""
        last: Report | None = None
        try:
            async with asyncio.timeout(seconds):
                # Until it has read the cluster it reports nothing: it may have started a moment ago.
                while (await self.page("/state", only_head=True))[0] == 503:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                async with self.follow() as updates:
                    async for update in updates:
                        last = update.services.get(service, last)
                        if last is not None and good(last):
                            return last
        except TimeoutError:
            pass
        raise AssertionError(f"never told of {service}; last: {last}\n{self.log()[-2000:]}")

    async def until_routed(self, model: str, seconds: float = 60) -> None:
        """Wait until the address that all models share knows a model."""
        url = f"http://{self.address}:{self.router_port}/v1/models"
        async with asyncio.timeout(seconds):
            while True:
                async with self._clients.get(url, headers={"Connection": "close"}) as answer:
                    if model in await answer.text():
                        return
                await asyncio.sleep(0.05)

    async def ask(self, slot: int, name: str, body: bytes = b"{}", **headers: str) -> tuple[int, Any]:
        """Send one request to a service; returns the status and the JSON of the answer."""
        url = f"http://{self.address}:{self.first_port + slot}/v1/chat/completions"
        headers["X-Request-Id"] = name
        async with self._clients.post(url, data=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def stream(self, slot: int, name: str, **headers: str) -> bytes:
        """Send one request that is answered with a stream; returns all of it."""
        url = f"http://{self.address}:{self.first_port + slot}/v1/completions"
        headers["X-Request-Id"] = name
        async with self._clients.post(url, data=b"{}", headers=headers) as answer:
            return await answer.read()
