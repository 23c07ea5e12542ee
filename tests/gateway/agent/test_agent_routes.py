"""Routes in the gateway's agent, with a real API server, the rights of its Role, and real HAProxies."""

import asyncio
from collections import Counter

import pytest

from tests.gateway.agent_process import OWN, ROUTER
from tests.gateway.scene import Scene
from tests.unit.llmroute.routes import backend, route

# One control plane for all of them.
pytestmark = pytest.mark.xdist_group("gateway-agent")

BODY = b'{"model": "chat"}'
SINCE = "2026-01-01T00:00:00Z"


def write(scene: Scene, *weights: int, asleep: str = "Wake") -> None:
    """Write a route's status as the operator does."""
    backends = [
        {"service": service, "model": "tiny", "weight": weight, "share": 0.5, "state": "Open"}
        for service, weight in zip(("tiny", "other"), weights, strict=True)
    ]
    counts, port = {"startTime": SINCE, "updateTime": SINCE}, scene.agent.route_port
    status = {
        "names": ["chat"],
        "backends": backends,
        "sleepingBackends": asleep,
        "counts": counts,
        "port": port,
    }
    scene.admin.merge("LLMRoute", "chat", {"status": status}, subresource="status")


async def routed(scene: Scene) -> None:
    """Wait until the router knows the name."""
    async with asyncio.timeout(60):
        while (await scene.agent.ask(ROUTER, "is it there?", BODY))[0] == 404:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_router_sends_requests_according_to_route_status(scene: Scene) -> None:
    scene.service()
    scene.head()
    scene.service("other")
    await scene.gate("Open")
    await scene.gate("Closed", "other", slot=1)
    await scene.agent.until("tiny/tiny", lambda report: report.servers_up == 1)
    manifest = route(backends=[backend("tiny", "tiny"), backend("other", "tiny")])
    scene.admin.create({**manifest, "metadata": {"name": "chat"}})
    assert (await scene.agent.ask(ROUTER, "not decided", BODY))[0] == 404
    write(scene, 1, 1, asleep="Skip")
    await routed(scene)
    # The sleeper is passed over.
    answers = [await scene.agent.ask(ROUTER, f"skip-{number}", BODY) for number in range(10)]
    assert Counter(status for status, _ in answers) == {200: 10}
    # At its own address the route's name alone is served.
    assert (await scene.agent.ask(OWN, "own", BODY))[0] == 200
    assert (await scene.agent.ask(OWN, "a model", b'{"model": "tiny"}'))[0] == 404
    # Awake, it has its share, without a word of the operator's on the route.
    scene.head("other", "other-abcde")
    await scene.gate("Open", "other", slot=1)
    await scene.agent.until("other/tiny", lambda report: report.servers_up == 1)
    before = (await scene.agent.until("other/tiny", lambda _: True)).arrivals
    async with asyncio.timeout(60):
        while (await scene.agent.until("other/tiny", lambda _: True)).arrivals == before:
            assert (await scene.agent.ask(ROUTER, "more", BODY))[0] == 200
    # Asleep again, it is woken by its share.
    await scene.gate("Closed", "other", slot=1)
    write(scene, 0, 1)
    async with asyncio.timeout(60):
        held: list[asyncio.Task[tuple[int, object]]] = []
        while not (await scene.agent.until("other/tiny", lambda _: True)).held:
            held.append(asyncio.create_task(scene.agent.ask(ROUTER, "wakes", BODY)))
            await asyncio.sleep(0.1)
    await scene.gate("Open", "other", slot=1)
    assert {status for status, _ in await asyncio.gather(*held)} == {200}
    reported = 'daybreak_gateway_route_requests_total{model="tiny",route="chat",service="other"}'
    async with asyncio.timeout(60):
        while reported not in (await scene.agent.page("/metrics"))[1]:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    # The operator receives the counts since the status began to count.
    async with asyncio.timeout(60), scene.agent.follow() as updates:
        async for update in updates:
            if update.routes is not None and "other/tiny" in update.routes["chat"].backends:
                break
    assert update.routes is not None
    found = update.routes["chat"]
    assert found.since == SINCE
    assert found.backends["tiny/tiny"].sent >= 10
    scene.admin.delete("LLMRoute", "chat")
    async with asyncio.timeout(60):
        while (await scene.agent.ask(ROUTER, "gone", BODY))[0] != 404:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
