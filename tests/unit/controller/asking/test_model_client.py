"""Probe of a model: which responses count as an answer, and the message otherwise."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from daybreak.api.llmservice.definition import LLMService
from daybreak.controller.asking.model_client import HttpModelClient
from daybreak.workloads.answer import Answer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def service(**engine_args: Any) -> LLMService:
    """Return a service with one model, m."""
    model = {
        "name": "m",
        "source": "file:///m",
        "accelerator": {"kind": "cpu"},
        "engine": {"args": engine_args},
    }
    manifest = {"metadata": {"name": "s", "namespace": "ns"}, "spec": {"models": [model]}}
    return LLMService.from_manifest(manifest)


@asynccontextmanager
async def serving(completions: Handler, models: Any = None, path: str = "/completions") -> AsyncIterator[str]:
    """Serve a fake OpenAI server on loopback, and yield its base URL."""

    async def listed(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]} if models is None else models)

    app = web.Application()
    app.add_routes([web.get("/v1/models", listed), web.post(f"/v1{path}", completions)])
    async with TestServer(app) as server:
        yield str(server.make_url("/v1"))


async def ask(base: str, requested: LLMService | None = None, patience: float = 25.0) -> Answer:
    """Probe the model at an address."""
    requested = requested or service()
    client = HttpModelClient()
    try:
        return await client.ask(requested, requested.spec.models[0], base, patience)
    finally:
        await client.close()


async def test_completion_of_one_token_counts_as_answer() -> None:
    bodies = []

    async def completions(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.json_response({"choices": [{"text": "!"}]})

    async with serving(completions) as base:
        assert await ask(base) == Answer("m", True)
    assert [(body["model"], body["max_tokens"]) for body in bodies] == [("m", 1)]


async def test_pooling_model_is_probed_with_embedding_request() -> None:
    async def embeddings(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"embedding": [0.0]}]})

    async with serving(embeddings, path="/embeddings") as base:
        assert (await ask(base, service(runner="pooling"))).answered


async def test_model_without_completions_api_counts_as_answered() -> None:
    async def completions(_: web.Request) -> web.Response:
        error = {"error": {"message": "The model does not support Completions API", "code": 400}}
        return web.json_response(error, status=400)

    async with serving(completions) as base:
        assert (await ask(base)).answered


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ('{"error": {"message": "engine is dead"}}', 500, "answered 500: engine is dead"),
        ('{"error": "plain"}', 503, "answered 503: plain"),
        ("no healthy upstream", 503, "answered 503: no healthy upstream"),
        ("", 302, "answered 302"),
        # JSON for half of a pair of UTF-16: no text that could be written into a status.
        (r'{"error": {"message": "\ud800"}}', 500, r'answered 500: {"error": {"message": "\ud800"}}'),
    ],
)
async def test_error_of_failing_server_is_reported(body: str, status: int, message: str) -> None:
    async def completions(_: web.Request) -> web.Response:
        return web.Response(text=body, status=status, headers={"Location": "http://127.0.0.1:1/"})

    async with serving(completions) as base:
        answer = await ask(base)
    assert not answer.answered
    assert message in answer.message
    assert answer.message.encode()


async def test_unlisted_model_is_no_answer_and_is_not_probed() -> None:
    async def completions(_: web.Request) -> web.Response:
        raise AssertionError("not asked")

    async with serving(completions, models={"data": [{"id": "other"}]}) as base:
        answer = await ask(base)
    assert not answer.answered
    assert "other" in answer.message


@pytest.mark.parametrize("models", [[], {"data": [1]}, {"data": "x"}, {"data": None}, {}])
async def test_malformed_model_list_is_no_answer(models: Any) -> None:
    async def completions(_: web.Request) -> web.Response:
        raise AssertionError("not asked")

    async with serving(completions, models=models) as base:
        assert not (await ask(base)).answered


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"text": "!"}]},
        {"choices": [{"message": {"role": "assistant", "content": "!"}}]},
        # A token without text, such as the end.
        {"choices": [{"text": "", "finish_reason": "stop"}], "usage": {"completion_tokens": 1}},
    ],
)
async def test_completion_with_text_or_token_counts_as_answer(body: Any) -> None:
    async def completions(_: web.Request) -> web.Response:
        return web.json_response(body)

    async with serving(completions) as base:
        assert await ask(base) == Answer("m", True)


async def erred(body: str, path: str = "/completions", requested: LLMService | None = None) -> Answer:
    """Return the answer for a body that comes with 200 and is no valid response."""

    async def says(_: web.Request) -> web.Response:
        return web.Response(text=body)

    async with serving(says, path=path) as base:
        answer = await ask(base, requested)
    assert not answer.answered
    assert answer.erred
    return answer


NOTHING = ["", "ok", "[]", "{}", "null", '{"error": {"message": "engine is dead"}}']


@pytest.mark.parametrize(
    "body",
    [
        *NOTHING,
        '{"choices": []}',
        '{"choices": "!"}',
        '{"choices": [{"text": ""}], "usage": {"completion_tokens": 0}}',
        '{"choices": [{"text": null}]}',
        '{"choices": [{"message": {"content": ""}}], "usage": null}',
        '{"usage": {"completion_tokens": 1}}',
        '{"data": [{"embedding": [0.5]}]}',
    ],
)
async def test_200_without_a_completion_is_no_answer(body: str) -> None:
    answer = await erred(body)
    assert "answered 200 without a completion" in answer.message


@pytest.mark.parametrize(
    "body",
    [
        *NOTHING,
        '{"data": []}',
        '{"data": [{"embedding": []}]}',
        '{"data": [{"embedding": [null, null]}]}',
        '{"data": [{"embedding": ""}]}',
        '{"choices": [{"text": "!"}]}',
    ],
)
async def test_200_without_an_embedding_is_no_answer(body: str) -> None:
    answer = await erred(body, "/embeddings", service(runner="pooling"))
    assert "answered 200 without an embedding" in answer.message


@pytest.mark.parametrize(("status", "erred"), [(500, True), (404, True), (429, False), (503, False)])
async def test_status_429_or_503_does_not_count_as_error(status: int, erred: bool) -> None:
    async def completions(_: web.Request) -> web.Response:
        return web.Response(text="no", status=status)

    async with serving(completions) as base:
        answer = await ask(base)
    assert not answer.answered
    assert answer.erred is erred


async def test_an_endless_body_is_cut_off() -> None:
    async def completions(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x" * 65536)
        except ConnectionError:
            return response

    async with serving(completions) as base:
        answer = await asyncio.wait_for(ask(base), 10)
    assert not answer.answered


async def test_unreachable_server_is_reported_with_address() -> None:
    answer = await ask("http://127.0.0.1:1/v1")
    assert not answer.answered
    assert not answer.erred
    assert "127.0.0.1:1" in answer.message


async def test_hanging_server_is_reported_as_timeout() -> None:
    waits = asyncio.Event()

    async def completions(_: web.Request) -> web.Response:
        await waits.wait()
        return web.Response()

    async with serving(completions) as base:
        answer = await ask(base, patience=0.2)
        waits.set()
    assert not answer.answered
    assert "TimeoutError" in answer.message


async def test_hanging_probes_do_not_delay_another_probe() -> None:
    """A waking service is probed for minutes, which must not delay the probe of another one."""
    never = asyncio.Event()

    async def hangs(_: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    async def answers(_: web.Request) -> web.Response:
        return web.json_response({"choices": [{"text": "!"}]})

    requested, client = service(), HttpModelClient()
    model = requested.spec.models[0]
    async with serving(hangs) as silent, serving(answers) as base:
        hanging = [asyncio.create_task(client.ask(requested, model, silent, 60.0)) for _ in range(100)]
        await asyncio.sleep(0.2)
        try:
            assert (await client.ask(requested, model, base, 5.0)).answered
        finally:
            never.set()
            await asyncio.gather(*hanging)
            await client.close()


@pytest.mark.parametrize(("path", "says"), [("/v2/models/m/ready", ""), ("/up", "answered 503: loads")])
async def test_model_with_health_path_is_probed_at_that_path(path: str, says: str) -> None:
    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="true")

    async def loads(_: web.Request) -> web.Response:
        return web.json_response({"error": "loads"}, status=503)

    app = web.Application()
    app.add_routes([web.get("/v2/models/m/ready", ready), web.get("/up", loads)])
    requested, client = service(), HttpModelClient()
    async with TestServer(app) as server:
        base = str(server.make_url("")).rstrip("/")
        answer = await client.ask(requested, requested.spec.models[0], base, 25.0, path)
    await client.close()
    assert answer == (Answer("m", False, f"{base}{path} {says}") if says else Answer("m", True))
