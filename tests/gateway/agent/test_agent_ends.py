"""A gateway that is told to end, and one whose HAProxy hangs or dies."""

import asyncio
import os
import signal

import pytest

from tests.gateway.agent_process import ROUTER
from tests.gateway.scene import Scene

# One control plane for all of them.
pytestmark = pytest.mark.xdist_group("gateway-agent")


async def test_end_with_a_request_held_through_the_common_address(scene: Scene) -> None:
    scene.service()
    scene.head()
    await scene.gate("Closed")
    other, body = b'{"model": "other"}', b'{"messages": [], "model": "tiny"}'
    while "tiny" not in (await scene.agent.ask(ROUTER, "other", other))[1]["error"]["message"]:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    held = asyncio.create_task(scene.agent.ask(ROUTER, "held", body))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)
    scene.agent.process.send_signal(signal.SIGTERM)
    await scene.agent.until_page("/readyz", 503)
    scene.write_gate("Open")
    assert (await held)[0] == 200
    assert await scene.agent.process.wait() == 0


async def test_end_with_a_held_request(scene: Scene) -> None:
    scene.service()
    scene.head()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)

    os.kill(scene.agent.process.pid, signal.SIGTERM)
    assert await scene.agent.until_page("/readyz", 503) == "draining"
    # Beyond the moment at which HAProxy stops to listen.
    await asyncio.sleep(1.5)
    report = await scene.agent.until("tiny/tiny", lambda report: report.held == 1 and report.servers_up == 1)
    assert report.epoch == scene.epoch
    scene.write_gate("Open")
    assert (await held)[0] == 200
    async with asyncio.timeout(30):
        assert await scene.agent.process.wait() == 0


async def test_model_that_wakes_only_while_the_gateway_ends(scene: Scene) -> None:
    scene.service()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)
    os.kill(scene.agent.process.pid, signal.SIGTERM)
    await asyncio.sleep(2)
    scene.head()
    await scene.agent.until("tiny/tiny", lambda report: report.servers_up == 1)
    scene.write_gate("Open")
    assert (await held)[0] == 200
    async with asyncio.timeout(30):
        assert await scene.agent.process.wait() == 0


@pytest.mark.parametrize("drain_seconds", [1])
async def test_end_that_cannot_wait_any_longer(scene: Scene) -> None:
    scene.service()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)
    os.kill(scene.agent.process.pid, signal.SIGTERM)
    status, body = await held
    assert (status, body["error"]["message"]) == (
        503,
        "The gateway is being replaced: send the request again.",
    )
    async with asyncio.timeout(30):
        assert await scene.agent.process.wait() == 0


async def test_haproxy_hangs(scene: Scene) -> None:
    scene.service()
    await scene.gate("Closed")
    async with scene.agent.follow() as updates:
        await anext(updates)
        os.kill(scene.agent.haproxy, signal.SIGSTOP)
        assert "has not answered" in await scene.agent.until_page("/healthz", 503)
        assert "has not answered" in await scene.agent.until_page("/readyz", 503)
        os.kill(scene.agent.haproxy, signal.SIGCONT)
        await scene.agent.until_page("/readyz", 200)
        # What was said while it hung is little: old counts are not passed off as new ones.
        said = 0
        scene.write_gate("Failed")
        async for update in updates:
            said += 1
            if update.services and update.services["tiny/tiny"].epoch == scene.epoch:
                break
        assert said < 8


async def test_an_end_while_haproxy_hangs(scene: Scene) -> None:
    os.kill(scene.agent.haproxy, signal.SIGSTOP)
    os.kill(scene.agent.process.pid, signal.SIGTERM)
    async with asyncio.timeout(60):
        assert await scene.agent.process.wait() == 0


async def test_haproxy_dies(scene: Scene) -> None:
    scene.goes_well = False
    os.kill(scene.agent.haproxy, signal.SIGKILL)
    async with asyncio.timeout(30):
        assert await scene.agent.process.wait() == 1
    assert "HAProxy has ended" in scene.agent.log()


async def test_the_router_hangs(scene: Scene) -> None:
    os.kill(scene.agent.router, signal.SIGSTOP)
    assert await scene.agent.until_page("/healthz", 503) == "the router has not answered for 10 s"
    os.kill(scene.agent.router, signal.SIGCONT)
    await scene.agent.until_page("/readyz", 200)
    # As the kubelet does it: who is told to end does not wait for a router that will never finish.
    os.kill(scene.agent.router, signal.SIGSTOP)
    await scene.agent.until_page("/healthz", 503)
    os.kill(scene.agent.process.pid, signal.SIGTERM)
    async with asyncio.timeout(20):
        assert await scene.agent.process.wait() == 0
