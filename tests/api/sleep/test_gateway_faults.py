"""Effects on clients of a waking service when the API server or a gateway goes away.

The operator, two gateways (agent and HAProxy) and the API server are real; Serve and KubeRay are played, and
the test plays the kubelet: there are pods in name only.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cluster import ControlPlane
from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.conftest import start_plane
from tests.api.objects.sleeper import GATEWAY, NAME, Sleeper
from tests.api.operator_process import OperatorProcess
from tests.api.playing.kuberay import play_pod
from tests.gateway.agent_process import SLOTS, AgentProcess
from tests.gateway.fake_serve import FakeServe

# An operator, two gateways and a client that waits, four times: minutes where nothing is to spare.
pytestmark = pytest.mark.timeout(900)
GATE = f"{NAME}/{NAME}"
"""The gate of the service's one model, as gateways report it."""
AWAY_SECONDS = 30.0
PATIENCE = 180.0
"""Maximum wait for changes that come without an action of the test, in seconds."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Yield a separate control plane: one test stops its API server."""
    with start_plane("faults") as own:
        yield own


class Town:
    """A namespace with the operator, two gateways on two addresses, and a service behind them."""

    def __init__(
        self, sleeper: Sleeper, serve: FakeServe, agents: list[AgentProcess], operator: OperatorProcess
    ) -> None:
        self.sleeper = sleeper
        self.serve = serve
        self.agents = agents
        self.operator = operator
        self._port = 0
        """The service's, at both."""
        self._clients = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def close(self) -> None:
        """Clients end."""
        await self._clients.close()

    async def awake(self) -> None:
        """The service is there, and both gateways let requests through to it."""
        await asyncio.to_thread(self.sleeper.awake, sleep={"afterIdle": "1h"})
        self._port = self.sleeper.status()["gate"]["port"]
        for agent in self.agents:
            await agent.until(GATE, lambda report: report.gate == "open" and report.servers_up == 1)

    async def asleep(self) -> None:
        """Put the service to sleep: it is idle, and the model does not answer."""
        await self.awake()
        # Only now: awake for one second might be over before anybody has looked.
        spec = {"sleep": {"afterIdle": "1s"}}
        await asyncio.to_thread(self.sleeper.admin.merge, "LLMService", NAME, {"spec": spec})
        await self.until("asleep", lambda: self.sleeper.status()["phase"] == "Asleep")
        await asyncio.to_thread(self.sleeper.scaled, (0, 0))
        self.sleeper.silent()

    async def starts(self) -> None:
        """KubeRay does its part of a wake."""
        await asyncio.to_thread(self.sleeper.scaled, (1, 1))
        self.sleeper.kuberay.status(NAME, self.sleeper.cluster)

    async def wakes(self) -> None:
        """KubeRay and the model do their parts of a wake."""
        await self.starts()
        self.sleeper.answers()

    async def until(self, what: str, look: Callable[[], Any]) -> Any:
        """Wait for something to see on the API server."""
        return await asyncio.to_thread(eventually, what, look, PATIENCE)

    async def ask(self, gateway: int, name: str) -> Any:
        """Send one request through a gateway. Returns the status of its answer, or why there was none."""
        url = f"http://{_address(gateway)}:{self._port}/v1/chat/completions"
        try:
            async with self._clients.post(url, data=b"{}", headers={"X-Request-Id": name}) as answer:
                report = await answer.json()
                return answer.status if report.get("id") == name else report
        except aiohttp.ClientError as error:
            return type(error)

    async def hold(self, gateway: int, *clients: str) -> list[asyncio.Task[Any]]:
        """Start clients that a gateway holds from now on, in addition to those that it holds already."""
        requested = [asyncio.create_task(self.ask(gateway, name)) for name in clients]
        await self.agents[gateway].until(GATE, lambda report: report.held == len(clients))
        return requested


@pytest.fixture
async def town(
    plane: ControlPlane, admin: Admin, alone: Any, answers: Path, tmp_path: Path
) -> AsyncIterator[Town]:
    async with AsyncExitStack() as stack:
        serve = await stack.enter_async_context(FakeServe())
        agents = []
        for number in range(2):
            folder = tmp_path / f"g{number}"
            folder.mkdir()
            agents.append(Nearby(plane.kubeconfig, admin.namespace, folder, serve.address.port, number))
        agents[1].takes_the_ports_of(agents[0])
        for number, agent in enumerate(agents):
            await stack.enter_async_context(agent.running())
            _gateway_pod(admin, number)
        states = {_address(number): agent.state for number, agent in enumerate(agents)}
        here = {"first_port": agents[0].first_port, "slots": SLOTS, "states": states}
        operator: OperatorProcess = alone("operator", PLAYED_GATEWAYS=json.dumps(here), **GATEWAY)
        await asyncio.to_thread(operator.start)
        made = Town(Sleeper(admin, answers, tmp_path), serve, list(agents), operator)
        stack.push_async_callback(made.close)
        yield made
        assert operator.running, operator.log()[-3000:]


class Nearby(AgentProcess):
    """A gateway with a separate address, of which this machine has many."""

    def __init__(self, kubeconfig: Path, namespace: str, folder: Path, serve_port: int, number: int) -> None:
        super().__init__(kubeconfig, namespace, folder, serve_port, drain_seconds=120)
        self._environment["GATEWAY_ADDRESS"] = _address(number)

    @property
    def state(self) -> str:
        """Return the URL of the gateway's state."""
        return f"http://127.0.0.1:{self.http_port}/state"

    def takes_the_ports_of(self, other: AgentProcess) -> None:
        """Have the same ports for services, as all gateways of a namespace have."""
        self.first_port, self.router_port = other.first_port, other.router_port
        self._environment["GATEWAY_FIRST_PORT"] = str(self.first_port)
        self._environment["GATEWAY_ROUTER_PORT"] = str(self.router_port)


async def test_held_requests_are_answered_after_api_server_outage(town: Town, plane: ControlPlane) -> None:
    await town.asleep()
    held = await town.hold(0, "before")
    await town.until("waking", lambda: town.sleeper.status()["phase"] == "Waking")
    await town.starts()
    began = time.monotonic()
    await asyncio.to_thread(plane.stop_apiserver)
    try:
        held += await town.hold(1, "meanwhile")
        # The model is up, and the operator cannot open the gate.
        town.sleeper.answers()
        await asyncio.sleep(max(0.0, began + AWAY_SECONDS - time.monotonic()))
        assert not any(client.done() for client in held)
    finally:
        await asyncio.to_thread(plane.start_apiserver)
    assert await asyncio.gather(*held) == [200, 200]
    assert dict(town.serve.observed) == {"before": 1, "meanwhile": 1}


async def test_requests_are_answered_if_only_one_gateway_has_closed_its_gate(town: Town) -> None:
    await town.awake()
    closed, late = town.agents
    await asyncio.sleep(2)  # idle for longer than requested below
    epoch = town.sleeper.gates()[0]["epoch"]
    # Its HAProxy continues with an open gate; its agent is not missed for some seconds.
    with stopped(late.agent):
        town.sleeper.admin.merge("LLMService", NAME, {"spec": {"sleep": {"afterIdle": "1s"}}})
        await closed.until(GATE, lambda report: report.epoch > epoch and report.gate == "closed")
        # Otherwise it might let the first one go before anybody has seen that it is held.
        with stopped(town.operator.pid):
            first = asyncio.create_task(town.ask(0, "held"))
            assert await town.ask(1, "through") == 200
            await closed.until(GATE, lambda report: report.held == 1)
            assert not first.done()
    assert await first == 200
    assert dict(town.serve.observed) == {"held": 1, "through": 1}
    assert not town.sleeper.wake(), "it never slept"


async def test_killed_gateway_loses_only_its_own_held_requests(town: Town) -> None:
    await town.asleep()
    lost, kept = await town.hold(0, "a", "b", "c"), await town.hold(1, "d", "e", "f", "g")
    await town.agents[0].kill()
    ends = await asyncio.gather(*lost)
    assert all(isinstance(end, type) for end in ends), ends
    await town.wakes()
    assert await asyncio.gather(*kept) == [200] * 4
    assert dict(town.serve.observed) == dict.fromkeys("defg", 1), "who was lost has not reached a model"


async def test_stopping_gateway_loses_no_held_request(town: Town) -> None:
    await town.asleep()
    held = [*await town.hold(0, "a", "b", "c"), *await town.hold(1, "d", "e", "f", "g")]
    town.agents[0].end()
    await town.agents[0].until_page("/readyz", 503)
    await town.wakes()
    assert await asyncio.gather(*held) == [200] * 7
    assert dict(town.serve.observed) == dict.fromkeys("abcdefg", 1)
    assert await town.agents[0].ended(PATIENCE) == (0, 0)


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """While this lasts, the process stands still."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def _address(number: int) -> str:
    """Return the address of a gateway."""
    return f"127.0.0.{1 + number}"


def _gateway_pod(admin: Admin, number: int) -> None:
    """A gateway's pod, as the API server knows it."""
    play_pod(admin, f"gateway-{number}", names.gateway_labels(), _address(number))
