"""The gateway's agent with a real API server, a real HAProxy and a fake Serve."""

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import ControlPlane
from tests.api.admin import Admin
from tests.api.conftest import start_plane
from tests.api.objects import tiny
from tests.gateway.agent_process import ROUTER, AgentProcess
from tests.gateway.fake_serve import FakeServe

# One control plane for all of them.
pytestmark = pytest.mark.xdist_group("gateway-agent")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with start_plane("gateway", kuberay=False) as own:
        yield own


class Scene:
    """A namespace with its gateway, and the hand that plays operator and KubeRay."""

    def __init__(self, admin: Admin, agent: AgentProcess, serve: FakeServe) -> None:
        self.admin = admin
        self.agent = agent
        self.serve = serve
        self.epoch = 0
        self.goes_well = True
        """False: errors in the agent's log belong to the test."""

    def service(self, name: str = "tiny", **spec: Any) -> None:
        """Make an LLMService."""
        self.admin.create(tiny(name, **spec))

    def head(self, service: str = "tiny", cluster: str = "tiny-abcde") -> None:
        """Make the head pod of a RayCluster; the fake Serve listens there."""
        labels = {"daybreak.dev/service": service, "ray.io/cluster": cluster, "ray.io/node-type": "head"}
        host = self.serve.address.host
        spec = {"containers": [{"name": "ray", "image": "ray"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{cluster}-head", "labels": labels}}
        self.admin.create(pod | {"spec": spec})
        status = {"phase": "Running", "podIP": host, "podIPs": [{"ip": host}]}
        self.admin.merge("Pod", f"{cluster}-head", {"status": status}, subresource="status")

    async def gate(self, state: str, name: str = "tiny", slot: int = 0, **more: Any) -> int:
        """Write the gate as the operator does, and wait until the gateway has it. Returns the epoch."""
        self.write_gate(state, name, slot, **more)
        await self.agent.until(name, lambda report: report.epoch == self.epoch)
        return self.epoch

    def write_gate(self, state: str, name: str = "tiny", slot: int = 0, **more: Any) -> None:
        """Write the gate as the operator does."""
        self.epoch += 1
        gate = {"state": state, "epoch": self.epoch, "port": self.agent.first_port + slot}
        gate |= {"holdSeconds": 300, "cluster": f"{name}-abcde"} | more
        self.admin.merge("LLMService", name, {"status": {"gate": gate}}, subresource="status")


@pytest.fixture
def drain_seconds() -> int:
    """How long the gateway lets others finish."""
    return 120


@pytest.fixture
async def scene(plane: ControlPlane, tmp_path: Path, drain_seconds: int) -> AsyncIterator[Scene]:
    name = f"gw-{uuid.uuid4().hex[:8]}"
    admin = Admin(plane.kubeconfig)
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    async with FakeServe() as serve:
        agent = AgentProcess(plane.kubeconfig, name, tmp_path, serve.address.port, drain_seconds)
        async with agent.running():
            made = Scene(admin.within(name), agent, serve)
            yield made
        assert not made.goes_well or '"level": "error"' not in agent.log(), agent.log()[-3000:]


async def test_held_then_passed(scene: Scene) -> None:
    scene.service()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "first"))
    await scene.agent.until("tiny", lambda report: report.held == 1)
    assert not scene.serve.seen

    scene.head()
    await scene.agent.until("tiny", lambda report: report.servers_up == 1)
    await scene.gate("Open")
    assert await held == (200, {"id": "first", "bytes": 2})
    assert (await scene.agent.ask(0, "second"))[0] == 200
    report = await scene.agent.until("tiny", lambda report: report.arrivals == 2 and not report.in_flight)
    assert (report.gate, report.held) == ("open", 0)
    assert dict(scene.serve.seen) == {"first": 1, "second": 1}


async def test_failed_gate_refuses_with_the_reason(scene: Scene) -> None:
    scene.service()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny", lambda report: report.held == 1)
    await scene.gate("Failed", reason="no GPU fits")
    status, body = await held
    assert (status, body["error"]["message"]) == (503, "no GPU fits")


async def test_deleted_service_is_unknown(scene: Scene) -> None:
    scene.service()
    scene.service("other")
    await scene.gate("Closed")
    await scene.gate("Closed", "other", slot=1)
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny", lambda report: report.held == 1)
    async with scene.agent.follow() as updates:
        assert (await anext(updates)).services.keys() == {"tiny", "other"}
        scene.admin.delete("LLMService", "tiny")
        assert (await held)[0] == 404
        assert (await scene.agent.ask(0, "late"))[0] == 404
        async for update in updates:
            if update.full:
                assert update.services.keys() == {"other"}
                break


async def test_end_with_a_request_held_through_the_common_address(scene: Scene) -> None:
    scene.service()
    scene.head()
    await scene.gate("Closed")
    other, body = b'{"model": "other"}', b'{"messages": [], "model": "tiny"}'
    while "tiny" not in (await scene.agent.ask(ROUTER, "other", other))[1]["error"]["message"]:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    held = asyncio.create_task(scene.agent.ask(ROUTER, "held", body))
    await scene.agent.until("tiny", lambda report: report.held == 1)
    scene.agent.process.send_signal(signal.SIGTERM)
    await scene.agent.until_page("/readyz", 503)
    await scene.gate("Open")
    assert (await held)[0] == 200
    assert await scene.agent.process.wait() == 0


async def test_end_with_a_held_request(scene: Scene) -> None:
    scene.service()
    scene.head()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny", lambda report: report.held == 1)

    os.kill(scene.agent.process.pid, signal.SIGTERM)
    assert await scene.agent.until_page("/readyz", 503) == "draining"
    # Beyond the moment at which HAProxy stops to listen.
    await asyncio.sleep(1.5)
    report = await scene.agent.until("tiny", lambda report: report.held == 1 and report.servers_up == 1)
    assert report.epoch == scene.epoch
    scene.write_gate("Open")
    assert (await held)[0] == 200
    async with asyncio.timeout(30):
        assert await scene.agent.process.wait() == 0


async def test_model_that_wakes_only_while_the_gateway_ends(scene: Scene) -> None:
    scene.service()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny", lambda report: report.held == 1)
    os.kill(scene.agent.process.pid, signal.SIGTERM)
    await asyncio.sleep(2)
    scene.head()
    await scene.agent.until("tiny", lambda report: report.servers_up == 1)
    scene.write_gate("Open")
    assert (await held)[0] == 200
    async with asyncio.timeout(30):
        assert await scene.agent.process.wait() == 0


@pytest.mark.parametrize("drain_seconds", [1])
async def test_end_that_cannot_wait_any_longer(scene: Scene) -> None:
    scene.service()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny", lambda report: report.held == 1)
    os.kill(scene.agent.process.pid, signal.SIGTERM)
    status, body = await held
    assert (status, body["error"]["message"]) == (
        503,
        "The gateway is being replaced: send the request again.",
    )
    async with asyncio.timeout(30):
        assert await scene.agent.process.wait() == 0


async def test_without_the_api_server(scene: Scene, plane: ControlPlane) -> None:
    scene.service()
    scene.head()
    await scene.gate("Closed")
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("tiny", lambda report: report.held == 1)
    await asyncio.to_thread(plane.stop_apiserver)
    try:
        more = asyncio.create_task(scene.agent.ask(0, "more"))
        await scene.agent.until("tiny", lambda report: report.held == 2)
        assert await scene.agent.page("/readyz") == (200, "ok")
    finally:
        await asyncio.to_thread(plane.start_apiserver)
    await scene.gate("Open")
    assert {(await held)[0], (await more)[0]} == {200}


async def test_ports_that_cannot_be_given(scene: Scene) -> None:
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
            "a-first": "closed",
            "good": "failed",
        }
    # The port's next owner gets it, and nothing of the one before.
    held = asyncio.create_task(scene.agent.ask(0, "held"))
    await scene.agent.until("a-first", lambda report: report.held == 1)
    scene.admin.delete("LLMService", "a-first")
    assert (await held)[0] == 404
    await scene.agent.until("b-second", lambda report: report.gate == "failed" and not report.arrivals)


async def test_another_cluster(scene: Scene) -> None:
    scene.service()
    scene.head(cluster="tiny-old")
    scene.head(cluster="tiny-new")
    await scene.gate("Open", cluster="tiny-old")
    assert (await scene.agent.ask(0, "one"))[0] == 200
    # A stream of the cluster before goes on beside the next one's.
    stream = asyncio.create_task(scene.agent.stream(0, "stream"))
    await scene.agent.until("tiny", lambda report: report.in_flight == 1)
    await scene.gate("Open", cluster="gone")
    await scene.agent.until("tiny", lambda report: not report.servers_up)
    await scene.gate("Open", cluster="tiny-new")
    await scene.agent.until("tiny", lambda report: report.servers_up == 1)
    assert (await scene.agent.ask(0, "two"))[0] == 200
    scene.serve.finish.set()
    assert b"[DONE]" in await stream


async def test_metrics(scene: Scene) -> None:
    scene.service()
    scene.head()
    await scene.gate("Open")
    assert (await scene.agent.ask(0, "one"))[0] == 200
    await scene.agent.until("tiny", lambda report: report.arrivals == 1 and not report.held)
    _, text = await scene.agent.page("/metrics")
    assert 'daybreak_gateway_arrivals_total{service="tiny"} 1.0' in text
    assert 'daybreak_gateway_ends_total{reason="passed",service="tiny"} 1.0' in text
    assert "daybreak_api_requests_total" in text


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
            if update.services and update.services["tiny"].epoch == scene.epoch:
                break
        assert said < 8


@pytest.mark.parametrize("drain_seconds", [1])
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
    assert "a part of the gateway has ended" in scene.agent.log()
