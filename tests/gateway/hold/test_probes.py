"""Health checks of clients neither wake a model nor keep it awake."""

import asyncio
from typing import Any

import pytest

from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import BODY, Bench
from tests.gateway.guard.test_keys import api_key
from tests.gateway.keep_alive import chat
from tests.gateway.town import Town

AGENT = "litellm-internal-health-check"
MARKS = (f"agent/{AGENT}", "agent/Uptime 100%, (ours)", "key/sk-monitor", "path/v1/embeddings")
KEYS = [api_key("sk-one"), api_key("sk-monitor")]
WITH_KEY = {"Authorization": "Bearer sk-one"}
CHAT = "/v1/chat/completions"
PROBES = [
    pytest.param({**WITH_KEY, "User-Agent": f"{AGENT}/1.0"}, CHAT, id="user-agent"),
    pytest.param({**WITH_KEY, "User-Agent": "Uptime 100%, (ours) 7"}, CHAT, id="spaces"),
    pytest.param({**WITH_KEY, "Daybreak-Health-Check": "1"}, CHAT, id="header"),
    pytest.param({"Authorization": "Bearer sk-monitor"}, CHAT, id="key"),
    pytest.param(WITH_KEY, "/v1/embeddings", id="path"),
]
OTHERS = [
    pytest.param({**WITH_KEY, "User-Agent": f"a {AGENT}"}, CHAT, id="user-agent"),
    pytest.param({**WITH_KEY, "User-Agent": AGENT[:-1]}, CHAT, id="shorter"),
    pytest.param(WITH_KEY, CHAT, id="key"),
    pytest.param(WITH_KEY, "/v1/completions", id="path"),
]


@pytest.mark.parametrize("size", [0, 100_000])
@pytest.mark.parametrize(("headers", "path"), PROBES)
async def test_health_check_of_sleeping_model_is_answered_without_wake(
    bench: Bench, headers: dict[str, str], path: str, size: int
) -> None:
    await bench.gate(Gate.CLOSED, probes=MARKS, keys=KEYS)
    before = await bench.state()
    status, _, answer = await bench.ask("one", chat("big", size), path, **headers)
    assert (status, answer) == (200, {"status": "asleep", "model": None, "choices": []})
    state = await bench.state()
    assert (state.held, state.arrivals, state.in_flight, state.ends) == (0, 0, 0, {"health_check": 1})
    assert state.idle_ms >= before.idle_ms
    assert not bench.serve.observed


@pytest.mark.parametrize("size", [0, 100_000])
@pytest.mark.parametrize(("headers", "path"), PROBES)
async def test_health_check_of_an_awake_model_is_no_activity(
    bench: Bench, headers: dict[str, str], path: str, size: int
) -> None:
    await bench.wake(probes=MARKS, keys=KEYS)
    assert (await bench.ask("use", BODY, **WITH_KEY))[0] == 200
    await bench.until(lambda state: state.in_flight == 0)
    began = asyncio.get_running_loop().time()
    # The first ones after a use go past Lua, the others do not.
    for number in range(8):
        assert (await bench.ask(f"{number}", chat("big", size), path, **headers))[0] == 200
        await asyncio.sleep(0.4)
    state = await bench.state()
    idle = 1000 * (asyncio.get_running_loop().time() - began)
    assert state.idle_ms >= idle - 1000
    assert (state.arrivals, state.in_flight, state.held) == (1, 0, 0)
    assert state.ends == {"passed": 1, "health_check": 8}
    assert sum(bench.serve.observed.values()) == 9


@pytest.mark.parametrize(("headers", "path"), OTHERS)
async def test_request_without_health_check_mark_is_held(
    bench: Bench, headers: dict[str, str], path: str
) -> None:
    await bench.gate(Gate.CLOSED, probes=MARKS, keys=KEYS)
    asking = asyncio.create_task(bench.ask("one", BODY, path, **headers))
    await bench.until(lambda state: state.held == 1)
    await bench.wake(probes=MARKS, keys=KEYS)
    bench.serve.finish.set()
    if path == CHAT:
        assert (await asking)[0] == 200
        assert (await bench.state()).arrivals == 1
    asking.cancel()


async def test_health_check_counts_as_in_flight_until_its_end(bench: Bench) -> None:
    await bench.wake()
    bench.serve.hold_answers = True
    asking = asyncio.create_task(bench.ask("one", BODY, **{"Daybreak-Health-Check": "1"}))
    await bench.until(lambda state: state.in_flight == 1)
    await asyncio.sleep(1)
    state = await bench.state()
    assert (state.in_flight, state.arrivals) == (1, 0)
    assert state.idle_ms >= 900
    await bench.gate(Gate.CLOSED)
    assert (await bench.state()).in_flight == 1, "the model is not taken away from under it"
    bench.serve.finish.set()
    assert (await asking)[0] == 200
    await bench.until(lambda state: state.in_flight == 0)


async def test_request_between_health_checks_counts_as_activity(bench: Bench) -> None:
    await bench.wake()
    probe: dict[str, Any] = {"Daybreak-Health-Check": "1"}
    for number in range(3):
        await bench.ask(f"probe-{number}", BODY, **probe)
        await asyncio.sleep(0.2)
        await bench.ask(f"use-{number}", BODY)
    state = await bench.until(lambda state: state.in_flight == 0)
    assert state.arrivals == 3
    assert state.idle_ms < 2000


async def test_health_check_of_failed_or_unreachable_model_returns_503(bench: Bench) -> None:
    probe: dict[str, Any] = {"Daybreak-Health-Check": "1"}
    await bench.gate(Gate.FAILED, reason="No weights")
    status, _, answer = await bench.ask("one", BODY, **probe)
    assert (status, answer["error"]["code"]) == (503, "model_failed")
    await bench.gate(Gate.OPEN)
    status, _, answer = await bench.ask("two", BODY, **probe)
    assert (status, answer["error"]["code"]) == (503, "service_unavailable")
    assert (await bench.state()).held == 0


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_health_check_does_not_wake_sleeping_application(bench: Bench, method: str) -> None:
    await bench.gate(Gate.CLOSED, paths="any", probes=("path/words",))
    for path, headers in (("/words", {}), ("/others", {"Daybreak-Health-Check": "1"})):
        async with bench.clients.request(method, bench.url + path, headers=headers) as answer:
            assert (answer.status, (await answer.json())["status"]) == (200, "asleep")
    state = await bench.state()
    assert (state.held, state.arrivals, state.ends) == (0, 0, {"health_check": 2})


@pytest.mark.parametrize("late", [False, True])
async def test_health_check_at_common_address_does_not_wake_model(town: Town, late: bool) -> None:
    text = '"user": "' + "x" * 50_000 + '"'
    body = (f'{{{text}, "model": "big"}}' if late else f'{{"model": "big", {text}}}').encode()
    headers = {"Daybreak-Health-Check": "1", "X-Request-Id": "one"}
    async with town.clients.post(town.url + CHAT, data=body, headers=headers) as answer:
        assert (answer.status, (await answer.json())["status"]) == (200, "asleep")
    state = await town.until(0, lambda state: "health_check" in state.ends)
    assert (state.held, state.arrivals) == (0, 0)
