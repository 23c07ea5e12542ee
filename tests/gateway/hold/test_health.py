"""Health of an address: the gateway reports it itself, without a key and without a wake."""

from dataclasses import replace

import pytest

from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.conftest import Bench
from tests.gateway.guard.test_keys import api_key
from tests.gateway.town import Town

PATHS = ("/health", "/ping")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("gate", Gate)
async def test_health_is_answered_without_key_wake_or_activity(bench: Bench, gate: Gate, path: str) -> None:
    await bench.gate(gate, keys=[api_key("sk-one")])
    before = await bench.state()
    for method in ("GET", "HEAD"):
        async with bench.clients.request(method, bench.url + path) as answer:
            assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
            assert await answer.text() == ('{"status":"ok"}' if method == "GET" else "")
    state = await bench.state()
    assert replace(state, idle_ms=0) == replace(before, idle_ms=0)
    assert state.idle_ms >= before.idle_ms
    assert not bench.serve.observed


@pytest.mark.parametrize("path", PATHS)
async def test_common_address_answers_health_without_key(town: Town, path: str) -> None:
    keyed = {model: replace(route, keys=("ab" * 32,)) for model, route in town.routes.items()}
    await town.router.set_routes(keyed)
    for url in (town.url, *town.own_urls):
        async with town.clients.get(url + path) as answer:
            assert (answer.status, await answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", PATHS)
async def test_post_to_health_path_returns_404(bench: Bench, path: str) -> None:
    await bench.wake()
    assert (await bench.ask("one", path=path))[0] == 404
    assert not bench.serve.observed


async def test_terminating_gateway_is_healthy_but_takes_no_new_clients(bench: Bench, town: Town) -> None:
    await bench.wake()
    for part, url in ((bench.gateway, bench.url), (town.router, town.url)):
        await part.set_closing()
        found = {}
        for path in PATHS:
            async with bench.clients.get(url + path) as answer:
                found[path] = answer.status
                assert answer.headers["Connection"] == "close"
        assert found == {"/health": 200, "/ping": 503}


async def test_health_request_is_forwarded_to_application(bench: Bench) -> None:
    await bench.gateway.set_servers("s0", [bench.serve.address])
    slot = Slot(service="qwen", gate=Gate.OPEN, epoch=1, paths="any", check="/-/healthz")
    await bench.gateway.set_gate("s0", slot)
    await bench.until(lambda state: state.servers_up == 1)
    assert (await bench.ask("one", path="/health"))[0] == 200
    assert bench.serve.paths == {"one": "/health"}
