"""Chat model on Serve, with OpenAI's paths: /v1/models and /v1/chat/completions."""

import json
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from ray.serve import Application
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from daybreak_runtime.models.args import Args
from daybreak_runtime.models.builder import ONGOING, steps
from daybreak_runtime.models.llm import LLM
from daybreak_runtime.models.model import Model
from daybreak_runtime.models.server import path_of
from daybreak_runtime.models.step import Step
from daybreak_runtime.pipelines.chat import ChatModel, pieces, read
from daybreak_runtime.v2.problem import BadInput, NotFound, Problem

logger = logging.getLogger("ray.serve")
CHAT, MODELS, HEALTH = "/v1/chat/completions", "/v1/models", "/health"


class ChatArgs(BaseModel):  # type: ignore[misc,unused-ignore]
    """`args` of a chat application."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(default="", max_length=255)
    """Name in `/v1/models`. Defaults to the class's name in lower case."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the model: `self.settings`."""
    uses: dict[str, Args] = Field(default_factory=dict)
    """Arguments of the models that the application calls."""
    models: dict[str, Any] = Field(default_factory=dict)
    """LLMs of the same application, by their names; never written by users: `spec.llms` sets them."""


def chat_application(
    kind: type[ChatModel], uses: Mapping[str, type[Model]] | None = None, **options: Any
) -> Callable[[ChatArgs], Application]:
    """Return a builder for a chat model, as `application` does for models.

    Args:
        kind: Class that answers.
        uses: Models that it calls, each a separate deployment.
        options: Options of the deployment, by Serve's names.

    Raises:
        TypeError: The class has no `answer`.
    """
    if kind.answer is None:
        raise TypeError(f"{kind.__name__} has no answer")

    def build(args: ChatArgs) -> Application:
        settings = {"name": kind.__name__, "max_ongoing_requests": ONGOING, **options}
        deployment = serve.deployment(ChatServer, **settings)
        name = args.name or kind.__name__.lower()
        return deployment.bind(kind, name, args.settings, steps(uses or {}, args.uses), args.models)

    return build


class ChatServer:
    """Replicas of a chat model.

    Args:
        kind: Class that answers.
        name: Name in `/v1/models`.
        settings: Settings of the model.
        uses: Handles of the models that it calls.
        llms: Handles of LLMs, by their names.
    """

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        kind: type[ChatModel],
        name: str,
        settings: Mapping[str, Any],
        uses: Mapping[str, Any],
        llms: Mapping[str, Any],
    ) -> None:
        self._model = kind()
        self._model.name, self._model.settings = name, settings
        self._model.uses = {each: Step(each, handle) for each, handle in uses.items()}
        self._model.llms = {each: LLM(each, handle) for each, handle in llms.items()}
        await self._model.load()
        self._card = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "daybreak"}

    async def __call__(self, request: Request) -> Response:
        """Answer one HTTP request."""
        try:
            return await self._answer(request)
        except Exception as error:  # noqa: BLE001 -- logged, and returned to the client
            problem = self._problem(error)
            return JSONResponse(_error(problem), problem.status)

    async def _answer(self, request: Request) -> Response:
        path, method = path_of(request), request.method
        if path == HEALTH and method == "GET":
            return Response()
        if path == MODELS and method == "GET":
            return JSONResponse({"object": "list", "data": [self._card]})
        if path == f"{MODELS}/{self._model.name}" and method == "GET":
            return JSONResponse(self._card)
        if path != CHAT:
            raise NotFound(f"there is no {path[:200]} here")
        if method != "POST":
            raise Problem(f"{path} takes POST only", 405)
        try:
            report = json.loads(await request.body())
        except ValueError as error:
            raise BadInput(f"the request is no JSON: {error}") from error
        if isinstance(report, dict) and report.get("model") != self._model.name:
            raise NotFound(f"there is no model {str(report.get('model'))[:100]}; there is {self._model.name}")
        chat = read(report, self._model.name)
        head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": self._model.name}
        given = pieces(self._model, chat)
        if chat.stream:
            # A failure before the first piece is a response with a status, not a stream.
            first = await anext(given, None)
            return StreamingResponse(self._stream(head, first, given), media_type="text/event-stream")
        text = "".join([piece async for piece in given])
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return JSONResponse({**head, "object": "chat.completion", "choices": [choice]})

    async def _stream(
        self, head: Mapping[str, Any], first: str | None, rest: AsyncIterator[str]
    ) -> AsyncIterator[str]:
        def event(delta: Mapping[str, Any], finish: str | None = None) -> str:
            choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
            return f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"

        yield event({"role": "assistant", "content": first or ""})
        try:
            async for piece in rest:
                yield event({"content": piece})
        except Exception as error:  # noqa: BLE001 -- logged, and returned to the client
            # The status was sent already. Without [DONE] the client knows that the answer is incomplete.
            yield f"data: {json.dumps(_error(self._problem(error)))}\n\n"
            return
        yield event({}, "stop")
        yield "data: [DONE]\n\n"

    def _problem(self, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        logger.exception("%s failed", self._model.name, exc_info=error)
        return Problem(f"{self._model.name} failed: {type(error).__name__}: {error}"[:500], 500)


def _error(problem: Problem) -> dict[str, Any]:
    kind = "invalid_request_error" if problem.status < 500 else "server_error"
    code = {404: "model_not_found", 504: "timeout"}.get(problem.status)
    return {"error": {"message": problem.message, "type": kind, "param": None, "code": code}}
