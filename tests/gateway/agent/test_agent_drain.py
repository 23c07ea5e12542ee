"""A gateway pod that terminates announces the end of each connection and loses no request."""

import asyncio
import os
import time

import pytest

from tests.gateway.agent_process import ROUTER
from tests.gateway.keep_alive import Clients, chat, exchange
from tests.gateway.scene import Scene
from tests.gateway.town import CLOCK_ERROR

# One control plane for all of them.
pytestmark = pytest.mark.xdist_group("gateway-agent")

REPETITIONS = int(os.environ.get("DAYBREAK_DRAIN_REPETITIONS", "2"))
"""How often the loss test runs. Losses are a matter of timing: 20 repetitions are the proof."""
CLIENTS = 32
"""Clients of each address."""
ENDPOINT_SECONDS = 0.5
"""Time until a terminating pod gets no new connections, within GATEWAY_LEAVE_SECONDS."""


@pytest.mark.parametrize("repetition", range(REPETITIONS))
async def test_rollout_with_a_backlog_loses_no_request(scene: Scene, repetition: int) -> None:
    scene.service()
    scene.head()
    await scene.gate("Closed")
    old = scene.agent
    async with old.another(f"new-{repetition}").running() as new:
        gateway = old
        both = [
            Clients(chat("tiny"), port, lambda: gateway.address) for port in (old.first_port, old.router_port)
        ]
        await old.until_routed("tiny")
        await new.until_routed("tiny")
        for number, clients in enumerate(both):
            clients.start(CLIENTS, f"c{number}")
        await old.until("tiny/tiny", lambda report: report.held == 2 * CLIENTS)
        old.end()
        await asyncio.sleep(ENDPOINT_SECONDS)
        gateway = new
        scene.write_gate("Open")
        assert await old.ended(60) == (0, 0)
        for clients in both:
            await clients.stop()
            assert not clients.lost
            assert set(clients.statuses) == {200}
            assert clients.statuses[200] > CLIENTS


@pytest.mark.parametrize("slot", [0, ROUTER])
async def test_response_on_idle_connection_announces_close_while_draining(scene: Scene, slot: int) -> None:
    scene.service()
    scene.head()
    await scene.gate("Open")
    await scene.agent.until("tiny/tiny", lambda report: report.servers_up == 1)
    await scene.agent.until_routed("tiny")
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.agent.first_port + slot)
    assert await exchange(reader, writer, "before", chat("tiny")) == (200, False)
    scene.agent.end()
    await scene.agent.until_page("/readyz", 503)
    # Beyond the moment at which HAProxy stops to listen.
    await asyncio.sleep(2.5)
    assert await exchange(reader, writer, "while draining", chat("tiny")) == (200, True)
    writer.close()
    assert await scene.agent.ended() == (0, 0)


@pytest.mark.parametrize("drain_seconds", [3])
async def test_idle_connection_does_not_outlast_the_grace_period(scene: Scene) -> None:
    scene.service()
    scene.head()
    await scene.gate("Open")
    await scene.agent.until("tiny/tiny", lambda report: report.servers_up == 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.agent.first_port)
    assert await exchange(reader, writer, "before", chat("tiny")) == (200, False)
    began = time.monotonic()
    scene.agent.end()
    assert await scene.agent.ended() == (0, 0)
    assert time.monotonic() - began >= 3 - CLOCK_ERROR
    assert await reader.read() == b""
    writer.close()
