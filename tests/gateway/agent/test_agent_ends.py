"""A gateway that receives SIGTERM, and one whose HAProxy hangs or dies."""

import asyncio
import os
import signal

import pytest

from tests.gateway.agent_process import ROUTER
from tests.gateway.scene import Scene

# One control plane for all of them.
pytestmark = pytest.mark.xdist_group("gateway-agent")


async def test_request_held_at_shared_address_is_answered_during_shutdown(scene: Scene) -> None:
    scene.service()
    scene.head()
    await scene.gate("Closed")
    other, body = b'{"model": "other"}', b'{"messages": [], "model": "tiny"}'
    while "tiny" not in (await scene.agent.ask(ROUTER, "other", other))[1]["error"]["message"]:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    held = asyncio.create_task(scene.agent.ask(ROUTER, "held", body))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)
    scene.agent.end()
    await scene.agent.until_page("/readyz", 503)
    scene.write_gate("Open")
    assert (await held)[0] == 200
    assert await scene.agent.ended() == (0, 0)


async def test_held_request_is_answered_during_shutdown(scene: Scene) -> None:
    scene.service()
    scene.head()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)

    scene.agent.end()
    assert await scene.agent.until_page("/readyz", 503) == "draining"
    # Beyond the moment at which HAProxy stops to listen.
    await asyncio.sleep(1.5)
    report = await scene.agent.until("tiny/tiny", lambda report: report.held == 1 and report.servers_up == 1)
    assert report.epoch == scene.epoch
    scene.write_gate("Open")
    assert (await held)[0] == 200
    assert await scene.agent.ended() == (0, 0)


async def test_held_request_is_answered_if_model_wakes_during_shutdown(scene: Scene) -> None:
    scene.service()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)
    scene.agent.end()
    await asyncio.sleep(2)
    scene.head()
    await scene.agent.until("tiny/tiny", lambda report: report.servers_up == 1)
    scene.write_gate("Open")
    assert (await held)[0] == 200
    assert await scene.agent.ended() == (0, 0)


@pytest.mark.parametrize("drain_seconds", [1])
async def test_held_request_gets_503_when_drain_time_ends(scene: Scene) -> None:
    scene.service()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)
    scene.agent.end()
    status, body = await held
    assert (status, body["error"]["message"]) == (
        503,
        "This gateway pod is shutting down. Send the request again.",
    )
    assert await scene.agent.ended() == (0, 0)


async def test_hung_haproxy_makes_agent_unhealthy_until_recovery(scene: Scene) -> None:
    scene.service()
    await scene.gate("Closed")
    async with scene.agent.follow() as updates:
        await anext(updates)
        os.kill(scene.agent.haproxy, signal.SIGSTOP)
        assert "has not answered" in await scene.agent.until_page("/healthz", 503)
        assert "has not answered" in await scene.agent.until_page("/readyz", 503)
        os.kill(scene.agent.haproxy, signal.SIGCONT)
        await scene.agent.until_page("/readyz", 200)
        # Few reports came while it hung: old counts are not reported as new ones.
        message = 0
        scene.write_gate("Failed")
        async for update in updates:
            message += 1
            if update.services and update.services["tiny/tiny"].epoch == scene.epoch:
                break
        assert message < 8


async def test_shutdown_completes_while_haproxy_hangs(scene: Scene) -> None:
    os.kill(scene.agent.haproxy, signal.SIGSTOP)
    scene.agent.end()
    assert await scene.agent.ended(60) == (0, 0)


async def test_gateway_serves_again_after_haproxy_dies_and_restarts(scene: Scene) -> None:
    scene.goes_well = False
    scene.service()
    scene.head()
    await scene.gate("Open")
    agent = scene.agent.agent
    os.kill(scene.agent.haproxy, signal.SIGKILL)
    async with asyncio.timeout(30):
        assert await scene.agent.process.wait() == 1
    assert "HAProxy has ended: hold" in scene.agent.log()
    # The kubelet starts its container again, and the agent the HAProxies.
    await scene.agent.start_haproxy()
    await scene.agent.replaced(agent)
    await scene.agent.until_page("/readyz", 200)
    await scene.agent.until("tiny/tiny", lambda report: report.servers_up == 1)
    assert (await scene.agent.ask(0, "again"))[0] == 200


async def test_hung_router_makes_agent_unhealthy_and_does_not_block_stop(scene: Scene) -> None:
    os.kill(scene.agent.router, signal.SIGSTOP)
    assert await scene.agent.until_page("/healthz", 503) == "the router has not answered for 10 s"
    os.kill(scene.agent.router, signal.SIGCONT)
    await scene.agent.until_page("/readyz", 200)
    # As the kubelet does: one container receives SIGTERM, and does not wait for a router that never finishes.
    os.kill(scene.agent.router, signal.SIGSTOP)
    await scene.agent.until_page("/healthz", 503)
    agent = scene.agent.agent
    os.kill(scene.agent.process.pid, signal.SIGTERM)
    async with asyncio.timeout(20):
        assert await scene.agent.process.wait() == 0
    await scene.agent.start_haproxy()
    await scene.agent.replaced(agent)
    await scene.agent.until_page("/readyz", 200)


async def test_agent_stops_while_haproxy_container_is_missing(scene: Scene) -> None:
    """The agent waits for the HAProxies' container, which does not exist and never will."""
    scene.goes_well = False
    agent = scene.agent.agent
    scene.agent.process.kill()
    await scene.agent.process.wait()
    async with asyncio.timeout(30):
        while scene.agent.agent_or_none() in (agent, None):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    scene.agent.end()
    assert (await scene.agent.ended())[1] == 0
