"""Readiness by task: an engine is probed with a request that it serves."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from daybreak.api.common.task import Task
from daybreak.api.modelserver.definition import ModelServer
from daybreak.controller.asking.model_client import HttpModelClient
from daybreak.workloads.answer import Answer

ANSWERS: Mapping[str, Any] = {
    "/v1/completions": {"choices": [{"text": "!"}]},
    "/v1/chat/completions": {"choices": [{"message": {"role": "assistant", "content": "!"}}]},
    "/v1/embeddings": {"data": [{"embedding": [0.25]}]},
    "/v1/rerank": {"results": [{"index": 0, "relevance_score": 0.0}]},
    "/rerank": {"results": [{"index": 0, "relevance_score": 0.5}]},
    "/v1/score": {"data": [{"score": 1}]},
    "/score": {"data": [{"score": 0.5}]},
    "/classify": {"data": [{"label": "LABEL_0", "probs": [0.5, 0.5]}]},
    "/v1/audio/transcriptions": {"text": ""},
}
"""Responses of an engine at each path."""
TASK_PATHS = {
    Task.COMPLETIONS: "/v1/completions",
    Task.CHAT: "/v1/chat/completions",
    Task.EMBEDDINGS: "/v1/embeddings",
    Task.RERANK: "/v1/rerank",
    Task.SCORE: "/v1/score",
    Task.CLASSIFY: "/classify",
    Task.TRANSCRIPTION: "/v1/audio/transcriptions",
}


class Engine:
    """A fake engine with some of OpenAI's paths; all others return its 404.

    Args:
        answers: Body of a 200 response by path.
        card: More of its entry in the model list.
        openapi: Paths of its OpenAPI document; None: it has no document.
        refusals: Status and error message by path.
    """

    def __init__(
        self,
        answers: Mapping[str, Any],
        card: Mapping[str, Any] | None = None,
        openapi: list[str] | None = None,
        refusals: Mapping[str, tuple[int, str]] | None = None,
    ) -> None:
        self.answers = answers
        self.card = card or {}
        self.openapi = openapi
        self.refusals = refusals or {}
        self.posts: list[str] = []
        self.bodies: list[Any] = []

    async def respond(self, request: web.Request) -> web.Response:
        """Return the response to any request."""
        if request.method == "GET":
            return self._get(request.path)
        self.posts.append(request.path)
        if request.content_type == "application/json":
            self.bodies.append(await request.json())
        else:
            form = await request.post()
            self.bodies.append({name: form[name] for name in form})
        if request.path in self.refusals:
            status, message = self.refusals[request.path]
            return web.json_response({"error": {"message": message}}, status=status)
        if request.path in self.answers:
            return web.json_response(self.answers[request.path])
        return web.json_response({"detail": "Not Found"}, status=404)

    def _get(self, path: str) -> web.Response:
        if path == "/v1/models":
            return web.json_response({"data": [{"id": "m", **self.card}]})
        if path == "/openapi.json" and self.openapi is not None:
            return web.json_response({"paths": {each: {"post": {}} for each in self.openapi}})
        return web.json_response({"detail": "Not Found"}, status=404)


@asynccontextmanager
async def running(engine: Engine) -> AsyncIterator[str]:
    """Serve an engine on loopback and yield its base URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", engine.respond)
    async with TestServer(app) as server:
        yield str(server.make_url("/v1"))


async def probe(engine: Engine, task: Task | None = None, **engine_args: Any) -> Answer:
    """Probe the model of an engine."""
    spec = {"engine": "vllm", "model": {"name": "m", "source": "file:///m"}, "engineArgs": engine_args}
    server = ModelServer.from_manifest({"metadata": {"name": "s", "namespace": "ns"}, "spec": spec})
    client = HttpModelClient()
    try:
        async with running(engine) as base:
            return await client.ask(server, server.model, base, 10.0, task=task)
    finally:
        await client.close()


@pytest.mark.parametrize("path", ANSWERS)
async def test_engine_that_serves_one_path_is_ready(path: str) -> None:
    assert await probe(Engine({path: ANSWERS[path]})) == Answer("m", True)


@pytest.mark.parametrize("path", ANSWERS)
async def test_listed_path_is_probed_next(path: str) -> None:
    engine = Engine(ANSWERS if path == "/v1/completions" else {path: ANSWERS[path]}, openapi=[path])
    assert (await probe(engine)).answered
    assert set(engine.posts) <= {"/v1/completions", f"/v1{path}", path}


@pytest.mark.parametrize(
    ("card", "path"),
    [
        ({"capabilities": ["embed"]}, "/v1/embeddings"),
        ({"capabilities": ["rerank"]}, "/v1/rerank"),
        ({"capabilities": ["unknown", 7, "transcription"]}, "/v1/audio/transcriptions"),
        ({"task": "score"}, "/v1/score"),
        ({"capabilities": {"completion_chat": True, "classify": False}}, "/v1/chat/completions"),
    ],
)
async def test_capability_of_the_model_list_is_probed_first(card: Any, path: str) -> None:
    engine = Engine({path: ANSWERS[path]}, card)
    assert (await probe(engine)).answered
    assert engine.posts == [path]


@pytest.mark.parametrize(("task", "path"), TASK_PATHS.items())
async def test_declared_task_alone_is_probed(task: Task, path: str) -> None:
    engine = Engine(ANSWERS)
    assert (await probe(engine, task)).answered
    assert engine.posts == [path]


@pytest.mark.parametrize(("task", "path"), TASK_PATHS.items())
async def test_probe_fails_if_engine_does_not_serve_declared_task(task: Task, path: str) -> None:
    suffix = path.removeprefix("/v1")
    engine = Engine({other: body for other, body in ANSWERS.items() if not other.endswith(suffix)})
    answer = await probe(engine, task)
    assert not answer.answered
    assert answer.erred
    assert answer.message.endswith(f"{suffix} answered 404: Not Found")


async def test_answer_names_task_field_if_engine_serves_no_known_path() -> None:
    answer = await probe(Engine({}))
    assert not answer.answered
    assert answer.erred
    assert "/v1/completions answered 404" in answer.message
    assert "task" in answer.message


async def test_engine_that_rejects_first_task_is_probed_with_another_task() -> None:
    """An engine that names an unsupported API has not answered yet if it serves another one."""
    refusals = {
        "/v1/completions": (400, "The model does not support Completions API"),
        "/v1/embeddings": (500, "engine is dead"),
    }
    answer = await probe(Engine({}, refusals=refusals))
    assert not answer.answered
    assert "/v1/embeddings answered 500: engine is dead" in answer.message


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
async def test_failure_of_a_served_path_ends_the_probe(status: int) -> None:
    engine = Engine(
        {"/v1/embeddings": ANSWERS["/v1/embeddings"]}, refusals={"/v1/completions": (status, "no")}
    )
    answer = await probe(engine)
    assert not answer.answered
    assert engine.posts == ["/v1/completions"]


async def test_pooling_runner_is_probed_with_embeddings_first() -> None:
    engine = Engine({"/v1/embeddings": ANSWERS["/v1/embeddings"]})
    assert (await probe(engine, runner="pooling")).answered
    assert engine.posts == ["/v1/embeddings"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/rerank", {"results": []}),
        ("/v1/rerank", {"results": [{"index": 0}]}),
        ("/v1/score", {"data": [{"score": None}]}),
        ("/v1/score", {"data": [{"score": "1"}]}),
        ("/classify", {"data": [{"label": None, "probs": []}]}),
        ("/v1/audio/transcriptions", {"text": None}),
        ("/v1/audio/transcriptions", {"error": {"message": "engine is dead"}}),
        ("/v1/chat/completions", {"choices": [{"message": {"content": ""}}]}),
    ],
)
async def test_200_without_a_result_is_no_answer(path: str, body: Any) -> None:
    answer = await probe(Engine({path: body}))
    assert not answer.answered
    assert answer.erred
    assert "answered 200 without" in answer.message


async def test_probe_leaves_sampling_to_the_model() -> None:
    """One greedy row moves a whole batch of vLLM to another sampler, which every client waits for."""
    for task in (Task.COMPLETIONS, Task.CHAT):
        engine = Engine(ANSWERS)
        assert (await probe(engine, task)).answered
        assert not {"temperature", "seed", "top_k", "top_p"} & engine.bodies[0].keys()
        assert engine.bodies[0]["max_tokens"] == 1


async def test_transcription_probe_sends_a_recording() -> None:
    engine = Engine(ANSWERS)
    assert (await probe(engine, Task.TRANSCRIPTION)).answered
    assert engine.bodies[0]["model"] == "m"
    assert engine.bodies[0]["file"].filename.endswith(".wav")


async def test_other_paths_are_probed_if_listed_capability_is_missing() -> None:
    """A list can be wrong: a path that is missing is no failure while another one answers."""
    engine = Engine({"/v1/embeddings": ANSWERS["/v1/embeddings"]}, {"capabilities": ["rerank"]})
    assert (await probe(engine)).answered
