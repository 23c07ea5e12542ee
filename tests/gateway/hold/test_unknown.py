"""A model that the service does not have wakes nothing: its client receives an error before the hold."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yarl

from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.conftest import Bench
from tests.gateway.replicas.test_malformed import error
from tests.gateway.town import Town, insist

NONE = b'{"messages": [], "model": "none"}'
FORM = b'--zz\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n--zz--\r\n'
TRANSCRIPTIONS = "/v1/audio/transcriptions"
FORM_TYPE = {"Content-Type": "multipart/form-data; boundary=zz"}
LONG = json.dumps({"model": "none", "messages": [{"content": "x" * 100_000}]}).encode()


async def nobody_came(bench: Bench, rejected: int = 1) -> None:
    """Check that the model received no request and this number of requests was rejected."""
    state = await bench.state()
    assert (state.arrivals, state.held, state.ends) == (0, 0, {"unknown_model": rejected})
    assert not bench.serve.observed


async def test_request_for_unknown_model_returns_404_with_available_models(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    status, _, body = await bench.ask("one", NONE)
    assert status == 404
    assert body["error"] == {
        "message": "The model 'none' does not exist. Available models: big, org/small.",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
    await nobody_came(bench)


async def test_error_for_unknown_model_lists_at_most_50_models(bench: Bench) -> None:
    names = tuple(f"m{number}" for number in range(60))
    await bench.gateway.set_gate("s0", Slot(service="qwen", gate=Gate.CLOSED, epoch=1, models=names))
    _, _, body = await bench.ask("one", NONE)
    assert body["error"]["message"].endswith(f"Available models include: {', '.join(names[:50])}.")


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        (TRANSCRIPTIONS, FORM % b"none", FORM_TYPE),
        ("/v1/embeddings", b'\xef\xbb\xbf {"mod\\u0065l": "b\\u0069g2"}', {}),
        ("/tokenize", b'{"model": "none:big"}', {}),
        ("/v1/completions", b'{"model": ""}', {}),
        ("/v1/score", b'{"model": "none", that is no JSON', {"Content-Type": "text/plain"}),
    ],
)
async def test_unknown_model_is_rejected_in_any_kind_of_body(
    bench: Bench, path: str, body: bytes, headers: dict[str, str]
) -> None:
    await bench.gate(Gate.CLOSED)
    status, _, answer = await bench.ask("one", body, path, **headers)
    assert (status, answer["error"]["code"]) == (404, "model_not_found")
    await nobody_came(bench)


@pytest.mark.parametrize("chunked", [False, True])
async def test_unknown_model_is_rejected_before_end_of_large_body(bench: Bench, chunked: bool) -> None:
    await bench.gate(Gate.CLOSED)
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(LONG)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(LONG), LONG) if chunked else LONG
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%b\r\n\r\n" % length
    for sent in (body, body[: len(body) // 2]):
        answer = await asyncio.to_thread(insist, bench.gateway.config.first_port, head + sent)
        assert error(answer) == (404, "model_not_found")
    await nobody_came(bench, rejected=2)


@pytest.mark.parametrize("gate", [Gate.OPEN, Gate.FAILED])
async def test_unknown_model_is_rejected_at_gate_without_server(bench: Bench, gate: Gate) -> None:
    await bench.gate(gate)
    assert (await bench.ask("one", NONE))[0] == 404
    await nobody_came(bench)


async def test_unknown_model_is_rejected_while_service_is_awake(bench: Bench) -> None:
    """Serve's own answer has another shape than OpenAI's, and it remembers every name for ever."""
    await bench.wake()
    for body in (NONE, b" " + NONE, b'{"model": "big:none"}'):
        status, _, answer = await bench.ask("one", body)
        assert (status, answer["error"]["code"]) == (404, "model_not_found")
    assert not bench.serve.observed


async def tail() -> AsyncIterator[bytes]:
    """Yield a body with the name long after its first bytes, and without an announced length."""
    yield b'{"messages": "' + b"x" * 100_000
    yield b'", "model": "none"}'


@pytest.mark.parametrize(
    ("body", "path", "headers"),
    [
        (b'{"model": "big"}', "/v1/completions", {}),
        (b'{"messages": []}', "/v1/chat/completions", {}),
        (b'{"model": null}', "/v1/chat/completions", {}),
        (b'{"model": 3, "metadata": {"model": "none"}}', "/v1/chat/completions", {}),
        (b'{"prompt": "\\"model\\": \\"none\\""}', "/v1/completions", {}),
        (b"", "/v1/completions", {}),
        (b"none", "/v1/completions", {}),
        (b'{"model": "none', "/v1/completions", {}),
        (FORM % b"big", TRANSCRIPTIONS, FORM_TYPE),
        (FORM % b"none", TRANSCRIPTIONS, {"Content-Type": "application/json"}),
        (tail, "/v1/chat/completions", {}),
    ],
)
async def test_request_with_known_or_unreadable_model_is_held(
    bench: Bench, body: Any, path: str, headers: dict[str, str]
) -> None:
    await bench.gate(Gate.CLOSED)
    asking = asyncio.create_task(bench.ask("one", tail() if body is tail else body, path, **headers))
    await bench.until(lambda state: state.held == 1)
    await bench.wake()
    if path != "/v1/completions":  # which the fake answers with a stream
        assert (await asking)[0] == 200
    asking.cancel()
    await bench.until(lambda state: state.ends == {"passed": 1})


async def test_request_is_held_while_models_of_service_are_unknown(bench: Bench) -> None:
    await bench.gateway.set_gate("s0", Slot(service="qwen", gate=Gate.CLOSED, epoch=1))
    asking = asyncio.create_task(bench.ask("one", NONE))
    await bench.until(lambda state: state.held == 1)
    await bench.wake()
    assert (await asking)[0] == 200


async def test_added_model_is_held_and_removed_model_is_rejected_immediately(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    assert (await bench.ask("one", NONE))[0] == 404
    await bench.gateway.set_gate("s0", Slot(service="qwen", gate=Gate.CLOSED, epoch=9, models=("none",)))
    asking = asyncio.create_task(bench.ask("two", NONE))
    await bench.until(lambda state: state.held == 1)
    assert (await bench.ask("three", b'{"model": "big"}'))[0] == 404
    await bench.wake()
    assert (await asking)[0] == 200


HALF = "\N{REPLACEMENT CHARACTER}"
UNREADABLE = [
    pytest.param("/v1/completions", b'{"model": "a\\ud83d"}', {}, f"a{HALF}", id="first-half"),
    pytest.param("/v1/completions", b'{"model": "\\ude00b"}', {}, f"{HALF}b", id="second-half"),
    pytest.param(
        "/v1/completions", b'{"model": "\\ud83d\\ud83d\\ude00"}', {}, f"{HALF}\N{GRINNING FACE}", id="both"
    ),
    pytest.param("/v1/completions", b'{"model": "caf\xe9"}', {}, f"caf{HALF}", id="latin-1"),
    pytest.param("/v1/completions", b'{"model": "\xf0\x9f\x98"}', {}, HALF, id="cut"),
    pytest.param("/v1/completions", b'{"model": "\xc0\xafx\xff"}', {}, f"{HALF}x{HALF}", id="overlong"),
    pytest.param(
        "/v1/completions", '{"model": "a' + "é" * 300 + '"}', {}, "a" + "é" * 255 + HALF, id="longer"
    ),
    pytest.param(TRANSCRIPTIONS, FORM % b"caf\xe9", FORM_TYPE, f"caf{HALF}", id="form"),
]


@pytest.mark.parametrize(("path", "body", "headers", "named"), UNREADABLE)
async def test_unreadable_name_is_answered_in_utf_8(
    bench: Bench, path: str, body: bytes | str, headers: dict[str, str], named: str
) -> None:
    await bench.gate(Gate.CLOSED)
    data = body.encode() if isinstance(body, str) else body
    async with bench.clients.post(bench.url + path, data=data, headers=headers) as answer:
        found = json.loads((await answer.read()).decode())
    assert (answer.status, found["error"]["code"]) == (404, "model_not_found")
    assert (
        found["error"]["message"] == f"The model '{named}' does not exist. Available models: big, org/small."
    )
    await nobody_came(bench)


async def test_unreadable_path_is_answered_in_utf_8(bench: Bench, town: Town) -> None:
    await bench.gate(Gate.CLOSED)
    for url in (bench.url, town.url):
        async with bench.clients.get(yarl.URL(f"{url}/v1/models/caf%e9", encoded=True)) as answer:
            found = json.loads((await answer.read()).decode())
        assert (answer.status, found["error"]["code"]) == (404, "model_not_found")
        assert found["error"]["message"].startswith(f"The model 'caf{HALF}' does not exist.")


@pytest.mark.parametrize("size", [0, 50_000])
async def test_common_address_answers_unreadable_name_in_utf_8(town: Town, size: int) -> None:
    text = b'{"messages": [{"content": "%b"}], "model": "a\\ud83d"}' % (b"x" * size)
    async with town.clients.post(town.url + "/v1/chat/completions", data=text) as answer:
        found = json.loads((await answer.read()).decode())
    assert (answer.status, found["error"]["code"]) == (404, "model_not_found")
    assert found["error"]["message"].startswith(f"The model 'a{HALF}' does not exist.")
