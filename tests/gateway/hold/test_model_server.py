"""An engine in a container behind the gateway: its own port, its own path for health checks, its own name."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.manifests.resources import PODS
from daybreak.protocol.reports import Report
from tests.api.playing.kuberay import play_pod
from tests.gateway.fake_application import FakeApplication
from tests.gateway.fake_serve import FakeServe
from tests.gateway.scene import Scene
from tests.gateway.village import Village, village
from tests.unit.llmroute.routes import backend, route

ENGINE = "/health"
BODY = b'{"model": "engine"}'
ROUTED = b'{"model": "routed"}'


def write(
    place: Village, state: str, port: int, *, path: str = ENGINE, epoch: int = 1, protocol: str = "OpenAI"
) -> None:
    """Write a ModelServer of the service's name, with its gate, as the operator does."""
    gate = {"name": "engine", "state": state, "epoch": epoch, "phase": "Awake", "phaseTransitionTime": "now"}
    pods = {"cluster": "server.tiny", "port": port, "healthPath": path, "weight": 100}
    place.cache.put(
        MODEL_SERVERS,
        {
            "kind": "ModelServer",
            "metadata": {
                "namespace": "ns",
                "name": "tiny",
                "uid": "engine",
                "creationTimestamp": "2",
                "resourceVersion": str(epoch),
            },
            "spec": {"engine": "vllm", "model": {"name": "engine"}},
            "status": {
                "gate": {
                    "port": place.config.first_port + 1,
                    "protocol": protocol,
                    "backends": [pods],
                    "models": [gate],
                },
            },
        },
    )


def run(place: Village, serve: FakeServe | FakeApplication) -> None:
    """Make the engine's pod."""
    labels = names.labels("server.tiny", names.SERVER_COMPONENT)
    labels |= {names.MODEL_LABEL: names.worker_group("engine")}
    metadata = {"namespace": "ns", "name": "engine", "resourceVersion": "1", "labels": labels}
    place.cache.put(PODS, {"metadata": metadata, "status": {"podIP": serve.address.host, "phase": "Running"}})


async def until(place: Village, good: Any) -> Report:
    """Wait for a report of the engine's gate."""
    last = None
    try:
        async with asyncio.timeout(30):
            while True:
                last = place.feed.update(-1).services.get("server.tiny/engine")
                if last is not None and good(last):
                    return last
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"the engine: {last}") from None


async def ask(place: Village, name: str) -> int:
    """Send one request to the engine; returns the status of its answer."""
    url = f"http://127.0.0.1:{place.config.first_port + 1}/v1/chat/completions"
    async with place.clients.post(url, data=BODY, headers={"X-Request-Id": name}) as answer:
        await answer.read()
        return answer.status


async def test_held_request_is_sent_to_engine_after_gate_opens(tmp_path: Path) -> None:
    """Runs next to a service of the same name, which continues to use its own servers."""
    async with village(tmp_path, "big") as place, FakeServe("127.0.0.200", health=ENGINE) as engine:
        await place.gate(big="Open")
        write(place, "Closed", engine.address.port)
        run(place, engine)
        await until(place, lambda report: report.epoch == 1)
        held = asyncio.create_task(ask(place, "held"))
        await until(place, lambda report: report.held == 1 and report.servers_up == 1)
        assert not engine.observed
        write(place, "Open", engine.address.port, epoch=2)
        assert await held == 200
        assert engine.observed == {"held": 1}
        assert (await place.ask("other", b'{"model": "big"}'))[0] == 200
        assert place.replicas["big"].observed == {"other": 1}


async def test_changed_health_path_is_probed(tmp_path: Path) -> None:
    async with village(tmp_path) as place, FakeServe("127.0.0.200", health=ENGINE) as engine:
        write(place, "Open", engine.address.port, path="/elsewhere")
        run(place, engine)
        await until(place, lambda report: report.epoch == 1)
        await asyncio.sleep(1)
        assert (await until(place, lambda _: True)).servers_up == 0
        write(place, "Open", engine.address.port, epoch=2)
        await until(place, lambda report: report.servers_up == 1)
        assert await ask(place, "first") == 200


async def send(place: Village, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Send any request to the engine; status and body of its answer."""
    url = f"http://127.0.0.1:{place.config.first_port + 1}{path}"
    async with place.clients.request(method, url, data=body) as answer:
        return answer.status, await answer.read()


OWN = [
    ("POST", "/api/chat", b'{"model": "anything", "messages": []}'),
    ("GET", "/api/tags", None),
    ("DELETE", "/api/delete", b'{"model": "old"}'),
    ("POST", "/invocations", b"a,b\n1,2\n"),
    ("POST", "/v2/models/engine/infer", b"{}"),
]


async def test_request_to_engine_specific_api_is_held_and_sent_once(tmp_path: Path) -> None:
    async with village(tmp_path) as place, FakeApplication("127.0.0.200", 0) as engine:
        port = engine.address.port
        write(place, "Closed", port, protocol="Any")
        run(place, engine)
        await until(place, lambda report: report.epoch == 1)
        held = [asyncio.create_task(send(place, *each)) for each in OWN]
        await until(place, lambda report: report.held == len(OWN) and report.servers_up == 1)
        assert set(engine.observed) <= {("GET", ENGINE)}, "nothing but the health check"
        write(place, "Open", port, epoch=2, protocol="Any")
        assert [await each for each in held] == [(200, body or b"") for _, _, body in OWN]
        del engine.observed["GET", ENGINE]
        assert engine.observed == {(method, path): 1 for method, path, _ in OWN}


async def test_v2_model_server_accepts_only_v2_paths(tmp_path: Path) -> None:
    async with village(tmp_path) as place, FakeApplication("127.0.0.200", 0) as engine:
        write(place, "Open", engine.address.port, protocol="V2")
        run(place, engine)
        await until(place, lambda report: report.servers_up == 1)
        assert await send(place, "POST", "/v2/models/engine/infer", b"{}") == (200, b"{}")
        for path in ("/metrics", "/v1/models", "/v1/chat/completions"):
            assert (await send(place, "GET", path))[0] == 404


def write_route(scene: Scene, to: dict[str, Any]) -> None:
    """Write a route with the name `routed`, and its status as the operator does."""
    scene.admin.create({**route("names", names=["routed"], backends=[to]), "metadata": {"name": "names"}})
    at = "2026-01-01T00:00:00Z"
    message = {"names": ["routed"], "backends": [{**to, "share": 1.0, "state": "Open"}]}
    message["counts"] = {"startTime": at, "updateTime": at}
    scene.admin.merge("LLMRoute", "names", {"status": message}, subresource="status")


@pytest.mark.xdist_group("gateway-agent")
async def test_agent_routes_requests_to_model_server_by_model_name(scene: Scene) -> None:
    """With a real API server, and the rights of the gateway's Role."""
    async with FakeServe(health=ENGINE) as engine:
        manifest = {
            "apiVersion": "daybreak.dev/v1alpha1",
            "kind": "ModelServer",
            "metadata": {"name": "chat"},
            "spec": {"engine": "vllm", "model": {"name": "engine", "source": "file:///m"}},
        }
        scene.admin.create(manifest)
        labels = names.labels("server.chat", names.SERVER_COMPONENT)
        labels |= {names.MODEL_LABEL: names.worker_group("engine")}
        play_pod(scene.admin, "chat-server", labels, engine.address.host)
        gate = {"name": "engine", "state": "Open", "epoch": 1, "holdSeconds": 300}
        gate |= {"phase": "Awake", "phaseTransitionTime": "2026-01-01T00:00:00Z"}
        pods = {"cluster": "server.chat", "port": engine.address.port, "healthPath": ENGINE}
        status = {"gate": {"port": scene.agent.first_port, "backends": [pods], "models": [gate]}}
        scene.admin.merge("ModelServer", "chat", {"status": status}, subresource="status")
        await scene.agent.until("server.chat/engine", lambda report: report.servers_up == 1)
        assert (await scene.agent.ask(0, "first", BODY))[0] == 200
        router = scene.agent.router_port - scene.agent.first_port
        async with asyncio.timeout(30):
            while (await scene.agent.ask(router, "second", BODY))[0] != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert engine.observed["first"] == engine.observed["second"] == 1
        # A route leads there, and its share wakes one that sleeps.
        write_route(scene, backend("chat", "engine", kind="ModelServer", weight=1))
        async with asyncio.timeout(30):
            while (await scene.agent.ask(router, "routed", ROUTED))[0] != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        asleep = {**status["gate"], "models": [{**gate, "state": "Closed", "epoch": 2}]}
        scene.admin.merge("ModelServer", "chat", {"status": {"gate": asleep}}, subresource="status")
        await scene.agent.until("server.chat/engine", lambda report: report.epoch == 2)
        waking = asyncio.create_task(scene.agent.ask(router, "wakes", ROUTED))
        await scene.agent.until("server.chat/engine", lambda report: report.held == 1)
        awake = {**status["gate"], "models": [{**gate, "epoch": 3}]}
        scene.admin.merge("ModelServer", "chat", {"status": {"gate": awake}}, subresource="status")
        assert (await waking)[0] == 200
        assert engine.observed["wakes"] == 1
        reported = 'daybreak_gateway_route_requests_total{model="engine",route="names",service="server.chat"}'
        async with asyncio.timeout(60):
            while reported not in (await scene.agent.page("/metrics"))[1]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        scene.admin.delete("LLMRoute", "names")
        scene.admin.delete("ModelServer", "chat")
        async with asyncio.timeout(30):
            while (await scene.agent.ask(0, "late", BODY))[0] != 404:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
