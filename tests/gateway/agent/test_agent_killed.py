"""An agent that dies or hangs: HAProxy lives on, and the next agent takes it over."""

import asyncio
import json
import os
import signal

import pytest

from cluster import ControlPlane
from tests.gateway.agent_process import ROUTER
from tests.gateway.scene import Scene

# One control plane for all of them.
pytestmark = pytest.mark.xdist_group("gateway-agent")


async def test_requests_continue_after_agent_is_killed_and_replaced(scene: Scene) -> None:
    scene.goes_well = False
    scene.service()
    scene.head()
    await scene.gate("Open")
    scene.service("other")
    await scene.gate("Closed", "other", slot=1)
    stream = asyncio.create_task(scene.agent.stream(0, "stream"))
    held = asyncio.create_task(scene.agent.ask(1, "held"))
    await scene.agent.until("tiny/tiny", lambda report: report.in_flight == 1)
    await scene.agent.until("other/tiny", lambda report: report.held == 1)
    agent, haproxy, router = scene.agent.agent, scene.agent.haproxy, scene.agent.router
    late = scene.agent.late

    os.kill(agent, signal.SIGKILL)
    assert (await scene.agent.ask(0, "without an agent"))[0] == 200
    await scene.agent.replaced(agent)
    assert (scene.agent.haproxy, scene.agent.router, scene.agent.late) == (haproxy, router, late)
    assert await scene.agent.page("/readyz") == (200, "ok")
    report = await scene.agent.until("tiny/tiny", lambda report: report.arrivals == 2)
    assert (report.gate, report.in_flight, report.servers_up) == ("open", 1, 1)
    report = await scene.agent.until("other/tiny", lambda report: report.held == 1)
    assert (report.gate, report.epoch) == ("closed", scene.epoch)

    scene.serve.finish.set()
    assert b"[DONE]" in await stream
    scene.head("other", "other-abcde")
    scene.write_gate("Open", "other", slot=1)
    assert (await held)[0] == 200
    assert dict(scene.serve.observed) == {"stream": 1, "without an agent": 1, "held": 1}


async def test_long_request_is_routed_while_agent_is_missing(scene: Scene) -> None:
    scene.goes_well = False
    scene.service()
    scene.head()
    await scene.gate("Open")
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 200_000}], "model": "tiny"}).encode()
    async with asyncio.timeout(60):
        while (await scene.agent.ask(ROUTER, "first", body))[0] != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    agent = scene.agent.agent
    os.kill(agent, signal.SIGKILL)
    assert (await scene.agent.ask(ROUTER, "without an agent", body))[0] == 200
    await scene.agent.replaced(agent)
    assert (await scene.agent.ask(ROUTER, "with the next one", body))[0] == 200
    # Half of the router ends: so does the gateway, as with the others.
    os.kill(scene.agent.late, signal.SIGKILL)
    async with asyncio.timeout(60):
        assert await scene.agent.process.wait() == 1


async def test_repeated_agent_kills_under_load_lose_no_request(scene: Scene) -> None:
    scene.goes_well = False
    scene.service()
    scene.head()
    await scene.gate("Open")
    haproxy = scene.agent.haproxy
    going_on, answers = True, []

    async def client(number: int) -> None:
        sent = 0
        while going_on:
            answers.append((await scene.agent.ask(0, f"{number}-{sent}"))[0])
            sent += 1
            await asyncio.sleep(0.02)

    clients = [asyncio.create_task(client(number)) for number in range(8)]
    agent = scene.agent.agent
    for _ in range(5):
        os.kill(agent, signal.SIGKILL)
        agent = await scene.agent.replaced(agent)
    going_on = False
    await asyncio.gather(*clients)
    assert set(answers) == {200}
    assert set(scene.serve.observed.values()) == {1}
    assert sum(scene.serve.observed.values()) == len(answers)
    assert scene.agent.haproxy == haproxy
    await scene.agent.until("tiny/tiny", lambda report: report.arrivals == len(answers))


async def test_new_agent_applies_changes_made_before_its_start(scene: Scene) -> None:
    scene.goes_well = False
    scene.service("stays")
    scene.service("goes")
    scene.service("anew")
    scene.service("closes")
    scene.head("closes", "closes-abcde")
    for slot, name in enumerate(("stays", "goes", "anew")):
        await scene.gate("Closed", name, slot=slot)
    await scene.gate("Open", "closes", slot=3)
    held = [asyncio.create_task(scene.agent.ask(slot, f"held-{slot}")) for slot in range(3)]
    for name in ("stays", "goes", "anew"):
        await scene.agent.until(f"{name}/tiny", lambda report: report.held == 1)
    agent = scene.agent.agent
    os.kill(agent, signal.SIGSTOP)  # so that it sees none of the following changes
    scene.admin.delete("LLMService", "goes")
    scene.admin.delete("LLMService", "anew")
    scene.service("anew")
    scene.head("anew", "anew-abcde")
    scene.head("stays", "stays-abcde")
    scene.write_gate("Open", "anew", slot=2)
    scene.write_gate("Open", "stays")
    scene.write_gate("Closed", "closes", slot=3)
    os.kill(agent, signal.SIGKILL)
    # No held client gets an answer of another service that has the same name and port.
    assert [(await each)[0] for each in held] == [200, 404, 404]
    await scene.agent.replaced(agent)
    report = await scene.agent.until("closes/tiny", lambda report: report.epoch == scene.epoch)
    assert report.gate == "closed"
    assert (await scene.agent.ask(2, "anew"))[0] == 200
    assert (await scene.agent.ask(1, "gone"))[0] == 404
    assert dict(scene.serve.observed) == {"held-0": 1, "anew": 1}


async def test_hung_agent_is_replaced_without_cutting_stream(scene: Scene) -> None:
    scene.goes_well = False
    scene.service()
    scene.head()
    await scene.gate("Open")
    stream = asyncio.create_task(scene.agent.stream(0, "stream"))
    await scene.agent.until("tiny/tiny", lambda report: report.in_flight == 1)
    agent = scene.agent.agent
    os.kill(agent, signal.SIGSTOP)
    await scene.agent.replaced(agent)
    assert "Agent hung" in scene.agent.log()
    assert await scene.agent.page("/healthz") == (200, "ok")
    scene.serve.finish.set()
    assert b"[DONE]" in await stream


async def test_killed_agent_restarts_without_api_server(scene: Scene, plane: ControlPlane) -> None:
    scene.goes_well = False
    scene.service()
    scene.head()
    await scene.gate("Open")
    agent = scene.agent.agent
    await asyncio.to_thread(plane.stop_apiserver)
    try:
        os.kill(agent, signal.SIGKILL)
        async with asyncio.timeout(60):
            while "Adopted the configuration of HAProxy" not in scene.agent.log():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert await scene.agent.page("/readyz") == (200, "ok")
        assert (await scene.agent.ask(0, "one"))[0] == 200
        # The agent omits what it does not know yet: the service would look idle.
        assert (await scene.agent.page("/state"))[0] == 503
    finally:
        await asyncio.to_thread(plane.start_apiserver)
    await scene.agent.until("tiny/tiny", lambda report: report.gate == "open" and report.arrivals == 1)


async def test_shutdown_completes_after_agent_is_killed(scene: Scene) -> None:
    scene.goes_well = False
    scene.service()
    scene.head()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)
    agent = scene.agent.agent
    scene.agent.end()
    assert await scene.agent.until_page("/readyz", 503) == "draining"
    os.kill(agent, signal.SIGKILL)
    await scene.agent.replaced(agent)
    assert await scene.agent.page("/readyz") == (503, "draining")
    # HAProxy would wait for a connection that is kept for a next request.
    stream = asyncio.create_task(scene.agent.stream(0, "stream", Connection="close"))
    scene.write_gate("Open")
    assert (await held)[0] == 200
    await scene.agent.until("tiny/tiny", lambda report: report.in_flight == 1)
    # It ends when the last one has finished, even if the agent that ordered HAProxy to end is gone.
    await asyncio.sleep(1.0)
    os.kill(scene.agent.agent, signal.SIGKILL)
    scene.serve.finish.set()
    assert b"[DONE]" in await stream
    assert await scene.agent.ended() == (0, 0)
