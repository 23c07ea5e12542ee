"""Requests of a pipeline to other services, against a server with preset answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from daybreak_runtime.pipelines import Gateway, gateway
from daybreak_runtime.v2.problem import Problem

Answer = tuple[int, Any, dict[str, str]]
MESSAGES = [{"role": "user", "content": "Hello"}]


@dataclass
class Played:
    """Fake gateway that returns these answers in order, and records the requests."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    requested: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        self.requested.append((request.path, dict(request.headers), await request.json()))
        status, message, headers = self.answers.pop(0)
        body = message if isinstance(message, str) else json.dumps(message)
        return web.Response(status=status, text=body, headers=headers)


@pytest.fixture
async def played() -> AsyncIterator[Played]:
    found = Played()
    app = web.Application()
    app.router.add_post("/{path:.*}", found.answer)
    async with TestServer(app) as server:
        found.url = str(server.make_url("")).rstrip("/")
        yield found


@pytest.fixture
async def ask(played: Played) -> AsyncIterator[Callable[..., Gateway]]:
    made: list[Gateway] = []

    def client(**given: Any) -> Gateway:
        made.append(Gateway(played.url, **given))
        return made[-1]

    yield client
    for each in made:
        await each.close()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between two tries, none of which is waited for."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(gateway, "asyncio", _Asyncio(sleep))
    return waited


class _Asyncio:
    """asyncio, as far as the module uses it."""

    def __init__(self, sleep: Callable[[float], Any]) -> None:
        self.sleep = sleep


def chat(text: str | None) -> Answer:
    return 200, {"choices": [{"message": {"role": "assistant", "content": text}}]}, {}


def refused(status: int, message: str = "no", **headers: str) -> Answer:
    return (
        status,
        {"error": {"message": message}},
        {name.replace("_", "-"): value for name, value in headers.items()},
    )


async def test_chat_sends_openai_request_and_returns_text(
    played: Played, ask: Callable[..., Gateway]
) -> None:
    played.answers = [chat("Hi"), chat(None)]
    one = ask()
    assert await one.chat("m", MESSAGES, temperature=0.5) == "Hi"
    assert await one.chat("m", MESSAGES) == ""
    path, headers, body = played.requested[0]
    assert (path, body) == ("/v1/chat/completions", {"model": "m", "messages": MESSAGES, "temperature": 0.5})
    assert "Authorization" not in headers


@pytest.mark.parametrize("where", ["argument", "environment"])
async def test_api_key_is_sent_with_each_request(
    played: Played, ask: Callable[..., Gateway], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv(gateway.KEY, "of-the-pod")
    played.answers = [chat("Hi"), chat("Hi")]
    one = ask(key="own") if where == "argument" else ask()
    for _ in range(2):
        await one.chat("m", MESSAGES)
    desired = "Bearer own" if where == "argument" else "Bearer of-the-pod"
    assert [headers["Authorization"] for _, headers, _ in played.requested] == [desired] * 2


async def test_gateway_address_is_read_from_environment(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Gateway().url == gateway.DEFAULT
    monkeypatch.setenv(gateway.ADDRESS, f"{played.url}/")
    played.answers = [(200, {"a": 1}, {})]
    one = Gateway()
    assert await one.post("/anything", {"b": 2}) == {"a": 1}
    assert [(path, body) for path, _, body in played.requested] == [("/anything", {"b": 2})]
    await one.close()


@pytest.mark.parametrize("status", gateway.NOT_BEGUN)
async def test_request_that_was_not_started_is_retried(
    played: Played, ask: Callable[..., Gateway], pauses: list[float], status: int
) -> None:
    played.answers = [refused(status), refused(status, Retry_After="7"), chat("Hi")]
    assert await ask().chat("m", MESSAGES) == "Hi"
    assert len(played.requested) == 3
    first, second = pauses
    assert 1.0 <= first <= 1.3
    assert 7.0 <= second <= 9.1, "as long as it is told, and spread"


@pytest.mark.parametrize("status", [400, 401, 404, 500, 502, 504])
async def test_other_error_status_is_raised_without_retry(
    played: Played, ask: Callable[..., Gateway], pauses: list[float], status: int
) -> None:
    played.answers = [refused(status, "the reason"), chat("never")]
    with pytest.raises(Problem) as caught:
        await ask().chat("m", MESSAGES)
    assert (caught.value.status, caught.value.message) == (status, "the reason")
    assert len(played.requested) == 1
    assert not pauses


async def test_request_is_not_retried_if_pause_exceeds_time_limit(
    played: Played, ask: Callable[..., Gateway], pauses: list[float]
) -> None:
    played.answers = [refused(503, "asleep", Retry_After="1000"), chat("never")]
    with pytest.raises(Problem) as caught:
        await ask(within=30.0).chat("m", MESSAGES)
    assert (caught.value.status, caught.value.message) == (503, "asleep")
    assert not pauses


async def test_slow_server_raises_504_and_missing_server_raises_502() -> None:
    over = asyncio.Event()

    async def never(request: web.Request) -> web.Response:
        await over.wait()
        return web.Response()

    app = web.Application()
    app.router.add_post("/{path:.*}", never)
    async with TestServer(app) as server:
        slow = Gateway(str(server.make_url("")), within=0.05)
        with pytest.raises(Problem) as caught:
            await slow.post("/x", {})
        assert caught.value.status == 504
        over.set()
        await slow.close()
        url = str(server.make_url(""))
    gone = Gateway(url)
    with pytest.raises(Problem) as caught:
        await gone.post("/x", {})
    assert caught.value.status == 502
    await gone.close()


def outputs(*tensors: dict[str, Any]) -> Answer:
    return 200, {"outputs": list(tensors)}, {}


async def test_infer_sends_arrays_and_lists_and_returns_arrays(
    played: Played, ask: Callable[..., Gateway]
) -> None:
    label = {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["good"]}
    score = {"name": "score", "datatype": "FP32", "shape": [1, 2], "data": [0.25, 0.75]}
    played.answers = [outputs(label, score)]
    rows = np.array([[1, 2]], np.float32)
    found = await ask().infer("iris", version="2", path="/below", x=rows, text=["a"], n=3)
    assert found["label"].tolist() == [b"good"]
    assert found["score"].tolist() == [[0.25, 0.75]]
    [(path, _, body)] = played.requested
    assert path == "/below/v2/models/iris/versions/2/infer"
    assert body["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]},
        {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]},
        {"name": "n", "datatype": "INT64", "shape": [1], "data": [3]},
    ]


def events(*message: str) -> Answer:
    return 200, "".join(f"data: {each}\n\n" for each in message), {"Content-Type": "text/event-stream"}


def piece(text: str) -> str:
    return json.dumps({"choices": [{"delta": {"content": text}}]})


async def test_chat_stream_yields_text_pieces_until_done(played: Played, ask: Callable[..., Gateway]) -> None:
    played.answers = [
        events(piece("Good "), json.dumps({"choices": []}), piece("day"), "[DONE]", piece("no"))
    ]
    assert [each async for each in ask().chat_stream("m", MESSAGES)] == ["Good ", "day"]
    assert played.requested[0][2]["stream"] is True


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ([piece("Good "), json.dumps({"error": {"message": "out of memory"}})], "m: out of memory"),
        ([piece("Good ")], "m: the stream ended in the middle"),
    ],
)
async def test_stream_that_ends_early_raises_502_after_received_pieces(
    played: Played, ask: Callable[..., Gateway], report: list[str], words: str
) -> None:
    played.answers = [events(*report)]
    received = []

    async def listen() -> None:
        async for each in ask().chat_stream("m", MESSAGES):
            received.append(each)

    with pytest.raises(Problem) as caught:
        await listen()
    assert received == ["Good "]
    assert (caught.value.status, caught.value.message) == (502, words)
