"""The gateway's agent with a real API server, a real HAProxy and a fake Serve."""

import asyncio

import pytest

from cluster import ControlPlane
from tests.gateway.scene import Scene

# One control plane for all of them.
pytestmark = pytest.mark.xdist_group("gateway-agent")


async def test_held_request_is_forwarded_once_after_gate_opens(scene: Scene) -> None:
    scene.service()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "first"))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)
    assert not scene.serve.observed

    scene.head()
    await scene.agent.until("tiny/tiny", lambda report: report.servers_up == 1)
    await scene.gate("Open")
    assert await held == (200, {"id": "first", "bytes": 2})
    assert (await scene.agent.ask(0, "second"))[0] == 200
    report = await scene.agent.until(
        "tiny/tiny", lambda report: report.arrivals == 2 and not report.in_flight
    )
    assert (report.gate, report.held) == ("open", 0)
    assert dict(scene.serve.observed) == {"first": 1, "second": 1}


async def test_failed_gate_rejects_held_request_with_reason(scene: Scene) -> None:
    scene.service()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)
    await scene.gate("Failed", reason="no GPU fits")
    status, body = await held
    assert (status, body["error"]["message"]) == (503, "no GPU fits")


async def test_request_for_deleted_service_returns_404(scene: Scene) -> None:
    scene.service()
    scene.service("other")
    await scene.gate("Closed")
    await scene.gate("Closed", "other", slot=1)
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)
    async with scene.agent.follow() as updates:
        assert (await anext(updates)).services.keys() == {"tiny/tiny", "other/tiny"}
        scene.admin.delete("LLMService", "tiny")
        assert (await held)[0] == 404
        assert (await scene.agent.ask(0, "late"))[0] == 404
        async for update in updates:
            if update.full:
                assert update.services.keys() == {"other/tiny"}
                break


async def test_requests_are_held_during_api_server_outage(scene: Scene, plane: ControlPlane) -> None:
    scene.service()
    scene.head()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny/tiny", lambda report: report.held == 1)
    await asyncio.to_thread(plane.stop_apiserver)
    try:
        more = asyncio.create_task(scene.agent.ask(0, "more"))
        await scene.agent.until("tiny/tiny", lambda report: report.held == 2)
        assert await scene.agent.page("/readyz") == (200, "ok")
    finally:
        await asyncio.to_thread(plane.start_apiserver)
    await scene.gate("Open")
    assert {(await held)[0], (await more)[0]} == {200}


async def test_agent_keeps_its_state_while_read_permission_is_missing(
    scene: Scene, plane: ControlPlane
) -> None:
    scene.service()
    scene.head()
    await scene.gate("Open")
    scene.service("other")
    await scene.gate("Closed", "other", slot=1)
    held = asyncio.create_task(scene.agent.ask(1, "held"))
    await scene.agent.until("other/tiny", lambda report: report.held == 1)
    binding = scene.admin.get("RoleBinding", "daybreak-gateway")
    scene.admin.delete("RoleBinding", "daybreak-gateway")
    # A watch in progress continues without the right; the next one does not start.
    await asyncio.to_thread(plane.stop_apiserver)
    await asyncio.to_thread(plane.start_apiserver)
    async with asyncio.timeout(60):
        while "No permission to read" not in scene.agent.log():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert await scene.agent.page("/readyz") == (200, "ok")
    assert (await scene.agent.ask(0, "one"))[0] == 200
    await scene.agent.until("other/tiny", lambda report: report.held == 1)
    # With the right, the agent continues from its previous state.
    binding["metadata"] = {"name": "daybreak-gateway"}
    scene.admin.create(binding)
    scene.head("other", "other-abcde")
    scene.write_gate("Open", "other", slot=1)
    assert (await held)[0] == 200


async def test_invalid_or_occupied_port_is_not_assigned(scene: Scene) -> None:
    scene.service("a-first")
    await scene.gate("Closed", "a-first")
    scene.service("outside")
    scene.write_gate("Open", "outside", slot=100)
    scene.service("b-second")
    scene.write_gate("Failed", "b-second")
    scene.service("good")
    await scene.gate("Failed", "good", slot=1, reason="as it should be")
    async with scene.agent.follow() as updates:
        assert {name: report.gate for name, report in (await anext(updates)).services.items()} == {
            "a-first/tiny": "closed",
            "good/tiny": "failed",
        }
    # The port's next owner gets it, and nothing of the one before.
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("a-first/tiny", lambda report: report.held == 1)
    scene.admin.delete("LLMService", "a-first")
    assert (await held)[0] == 404
    await scene.agent.until("b-second/tiny", lambda report: report.gate == "failed" and not report.arrivals)


async def test_requests_go_to_new_cluster_while_old_stream_continues(scene: Scene) -> None:
    scene.service()
    scene.head(cluster="tiny-old")
    scene.head(cluster="tiny-new")
    await scene.gate("Open", cluster="tiny-old")
    assert (await scene.agent.ask(0, "one"))[0] == 200
    # A stream of the previous cluster continues while the next one's runs.
    stream = asyncio.create_task(scene.agent.stream(0, "stream"))
    await scene.agent.until("tiny/tiny", lambda report: report.in_flight == 1)
    await scene.gate("Open", cluster="gone")
    await scene.agent.until("tiny/tiny", lambda report: not report.servers_up)
    await scene.gate("Open", cluster="tiny-new")
    await scene.agent.until("tiny/tiny", lambda report: report.servers_up == 1)
    assert (await scene.agent.ask(0, "two"))[0] == 200
    scene.serve.finish.set()
    assert b"[DONE]" in await stream


async def test_metrics_count_requests_and_their_ends(scene: Scene) -> None:
    scene.service()
    scene.head()
    await scene.gate("Open")
    assert (await scene.agent.ask(0, "one"))[0] == 200
    await scene.agent.until("tiny/tiny", lambda report: report.arrivals == 1 and not report.held)
    _, text = await scene.agent.page("/metrics")
    assert 'daybreak_gateway_requests_total{model="tiny",service="tiny"} 1.0' in text
    assert 'daybreak_gateway_request_ends_total{model="tiny",reason="passed",service="tiny"} 1.0' in text
    assert "daybreak_api_requests_total" in text
