"""Fields on the list are rejected, in the body, small or large, asleep or awake; and so are headers."""

import asyncio
import json
from typing import Any

import pytest

from daybreak.gateway.fields import fields
from daybreak.gateway.haproxy.paths import SCORE_PATHS
from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench
from tests.gateway.replicas.test_malformed import error
from tests.gateway.town import insist

CHAT = "/v1/chat/completions"


def body(size: int = 0, **more: Any) -> bytes:
    """Return a body with the fields that matter before a text of that size."""
    text = {"messages": [{"role": "user", "content": "x" * size}]}
    return json.dumps({"model": "big", **more, **text}).encode()


@pytest.mark.parametrize("size", [0, 50_000])
@pytest.mark.parametrize("gate", [Gate.OPEN, Gate.CLOSED])
async def test_forbidden_field_is_rejected_at_open_and_closed_gate(
    bench: Bench, gate: Gate, size: int
) -> None:
    await bench.wake()
    await bench.gate(gate)
    for name in fields.REFUSED:
        status, _, answer = await bench.ask("one", body(size, **{name: 1}))
        assert (status, answer["error"]["param"]) == (400, name)
        assert not bench.serve.observed, name
        assert (await bench.state()).held == 0, name


async def test_forbidden_field_after_long_text_is_rejected(bench: Bench) -> None:
    await bench.wake()
    late = json.dumps({"model": "big", "prompt": "x" * 100_000, "priority": 1}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    answer = await asyncio.to_thread(insist, bench.gateway.config.first_port, head % len(late) + late)
    assert error(answer) == (400, "invalid_body")


@pytest.mark.parametrize("name", ["priority", "chat_template"])
@pytest.mark.parametrize("size", [0, 50_000])
async def test_field_allowed_by_service_passes_and_other_field_is_rejected(
    bench: Bench, name: str, size: int
) -> None:
    await bench.wake(extra=[name])
    assert (await bench.ask("one", body(size, **{name: "1"})))[0] == 200
    other = next(each for each in ("vllm_xargs", "request_id") if each != name)
    assert (await bench.ask("two", body(size, **{name: "1", other: 1})))[0] == 400


@pytest.mark.parametrize("size", [0, 50_000])
async def test_unknown_field_passes_unchanged(bench: Bench, size: int) -> None:
    await bench.wake()
    bench.serve.bodies = {}
    data = body(size, client_metadata={"x-installation": "7"}, access_programs=[], of_tomorrow=True)
    for name in ("one", "two"):
        assert (await bench.ask(name, data))[0] == 200
    assert bench.serve.bodies == dict.fromkeys(("one", "two"), data)
    if not size:
        assert (await bench.state()).past_lua >= 1, "what is unknown needs no look"


@pytest.mark.parametrize("salt", ["a/b", "s" * (fields.MAX_SALT + 1)])
async def test_cache_salt_with_slash_or_excess_length_is_rejected(bench: Bench, salt: str) -> None:
    await bench.wake()
    assert (await bench.ask("one", body(cache_salt="tenant-7")))[0] == 200
    status, _, answer = await bench.ask("two", body(cache_salt=salt))
    assert (status, answer["error"]["param"]) == (400, "cache_salt")
    assert (
        answer["error"]["message"] == f"'cache_salt' must have at most {fields.MAX_SALT} bytes and no slash."
    )


async def test_usual_request_bypasses_lua_if_stop_is_absent(bench: Bench) -> None:
    await bench.wake()
    usual: dict[str, Any] = {
        "temperature": 0.7,
        "max_completion_tokens": 10,
        "metadata": {},
        "store": False,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
            }
        ],
        "tool_choice": "auto",
        "response_format": {"type": "json_object"},
        "stop": ["\n\n", '"quoted": text'],
        "seed": 1,
    }
    assert (await bench.ask("one", body(**usual)))[0] == 200
    state = await bench.state()
    assert (state.arrivals, state.ends) == (1, {"passed": 1})
    del usual["stop"]  # which may be a name, for a client that does not read JSON
    assert (await bench.ask("two", body(**usual)))[0] == 200
    assert (await bench.state()).past_lua == 1


async def test_input_list_longer_than_limit_is_rejected(bench: Bench) -> None:
    await bench.wake()
    path, many = "/v1/embeddings", bench.gateway.config.max_items
    for inputs, status in (["a"] * many, 200), (["a"] * (many + 1), 400), ([7] * (many + 1), 200):
        data = json.dumps({"model": "big", "input": inputs}).encode()
        assert (await bench.ask("one", data, path))[0] == status
    assert bench.serve.observed == {"one": 2}
    for path, field in (("/v1/score", "text_2"), ("/rerank", "documents"), ("/v1/completions", "prompt")):
        data = json.dumps({"model": "big", field: ["a"] * (many + 1)}).encode()
        assert (await bench.ask("two", data, path))[0] == 400
    assert bench.serve.observed == {"one": 2}


async def test_control_headers_are_removed_from_requests(bench: Bench) -> None:
    await bench.wake()
    orders = {
        "serve_multiplexed_model_id": "other",
        "x-serve-router-queue-len": "1",
        "X-Serve-Router-Replica": "1",
        "X-Vllm-Priority": "-100",
        "X-Data-Parallel-Rank": "3",
        "x-daybreak-key-name": "somebody",
    }
    assert (await bench.ask("one", **orders, **{"x-session-id": "mine"}))[0] == 200
    assert not {name.lower() for name in orders} & bench.serve.headers.keys()
    assert bench.serve.headers["x-session-id"] == "mine"


@pytest.mark.parametrize("path", SCORE_PATHS)
async def test_score_requests_with_same_id_get_unique_ids_at_engine(bench: Bench, path: str) -> None:
    await bench.wake(replicas_listen=True)
    for _ in range(3):
        status, headers, _ = await bench.ask("mine", b'{"model": "big"}', path)
        assert status == 200
        assert headers.getall("X-Request-Id") == ["mine"]
    assert len(bench.serve.observed) == 3
    assert "mine" not in bench.serve.observed
    assert (await bench.ask("mine", b'{"model": "big"}'))[0] == 200
    assert bench.serve.observed["mine"] == 1, "elsewhere the client's own id goes to the logs of the engine"
