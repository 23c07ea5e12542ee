"""Probe of a model: only an answer proves that the model serves requests.

The probe bypasses the gateway, because only gateways know whether requests reach a model through them. Status
200 alone is no proof: a server may send it with an empty body or with an error.
"""

import os
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
import orjson

from daybreak.api.common.task import Task
from daybreak.api.common.unstructured import mapping, mappings
from daybreak.api.ray.model import Model
from daybreak.controller.asking.tasks import PROBES, documented_tasks, in_order, listed_tasks
from daybreak.workloads.answer import Answer

CONNECT_SECONDS = 3.0
BODY_LIMIT = 256 * 1024
"""Maximum number of bytes read of an answer. It is far above the size of one token and far below an oversized
response."""
DOCUMENT_LIMIT = 4 * 1024 * 1024
"""Maximum size of an OpenAPI document in bytes."""
MESSAGE_LIMIT = 300
MISSING = (404, 405, 501)
"""Status codes for a path that an engine does not serve."""
BUSY = (429, 503)
"""Status codes of a server without capacity for another request. They are no evidence about the model."""


class WorkloadWithModels(Protocol):
    """A workload with models."""

    @property
    def namespace(self) -> str:
        """Namespace of the workload."""
        ...

    @property
    def name(self) -> str:
        """Name of the workload."""
        ...


class ModelClient(Protocol):
    """Client that probes models. Tests without a cluster network use their own."""

    async def ask(
        self,
        service: WorkloadWithModels,
        model: Model,
        base: str,
        patience: float,
        path: str = "",
        task: Task | None = None,
    ) -> Answer:
        """Probe a model at a base URL and return the answer.

        Args:
            service: The workload.
            model: The workload's model.
            base: Base URL of the model's API.
            patience: Maximum duration of each request in seconds.
            path: Path that answers 200 if the model is healthy; if empty, the probe uses OpenAI's API.
            task: Task to probe; if None, one that the engine reports or serves.
        """
        ...

    async def close(self) -> None:
        """Close open connections."""
        ...


@dataclass(frozen=True)
class _Result:
    """Result of the probe of one task.

    Attributes:
        answer: The answer.
        served: False if the engine does not serve the task.
        refused: True if the engine reported that the model does not support the task.
    """

    answer: Answer
    served: bool = True
    refused: bool = False


class HttpModelClient:
    """Probes over HTTP that the engine lists the model and returns a result of one of the model's tasks."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self,
        service: WorkloadWithModels,
        model: Model,
        base: str,
        patience: float,
        path: str = "",
        task: Task | None = None,
    ) -> Answer:
        """Probe a model at a base URL and return the answer."""
        try:
            if path:
                status, body = await self._fetch("GET", f"{base}{path}", None, patience)
                if status == 200:
                    return Answer(model.name, True)
                return _no_answer(model, f"{base}{path}", status, body)
            status, body = await self._fetch("GET", f"{base}/models", None, patience)
            if status != 200:
                return _no_answer(model, f"{base}/models", status, body)
            cards = {str(item.get("id")): item for item in mappings(mapping(body).get("data"))}
            if model.name not in cards:
                only = f"{base}/models does not list it, only {', '.join(cards)}"
                return Answer(model.name, False, only, erred=True)
            if task is not None:
                return (await self._probe(model, base, task, patience)).answer
            return await self._probe_any(model, base, listed_tasks(cards[model.name]), patience)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return Answer(model.name, False, f"{base} does not answer: {_why(error)}")

    async def _probe_any(self, model: Model, base: str, listed: tuple[Task, ...], patience: float) -> Answer:
        """Probe the tasks that the engine reports, then all others, until the engine serves one.

        The engine's OpenAPI document may be large. It is read only if the engine does not serve the first
        task.
        """
        first = next(in_order(listed, _usual(model)))
        results = [await self._probe(model, base, first, patience)]
        if results[0].served:
            return results[0].answer
        documented = await self._documented(base, patience)
        for task in in_order(listed, documented, _usual(model)):
            if task is first:
                continue
            result = await self._probe(model, base, task, patience)
            if result.served:
                return result.answer
            results.append(result)
        if any(result.refused for result in results):
            return Answer(model.name, True)
        other = "it serves no other known task either; a ModelServer can name one in spec.model.task"
        return Answer(model.name, False, f"{results[0].answer.message}; {other}", erred=True)

    async def _documented(self, base: str, patience: float) -> tuple[Task, ...]:
        """Return the tasks in the engine's OpenAPI document; empty if there is no document."""
        url = f"{base.removesuffix('/v1')}/openapi.json"
        try:
            status, body = await self._fetch("GET", url, None, patience, DOCUMENT_LIMIT)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return ()
        return documented_tasks(body or {}) if status == 200 else ()

    async def _probe(self, model: Model, base: str, task: Task, patience: float) -> _Result:
        """Probe one task at the first of its paths that the engine serves."""
        probe = PROBES[task]
        answer, refused = Answer(model.name, False), False
        for path in probe.paths:
            url = f"{base.removesuffix('/v1')}{path}"
            status, body = await self._fetch("POST", url, probe.body(model.name), patience)
            if status == 200 and probe.has_result(body or {}):
                return _Result(Answer(model.name, True))
            if status == 200:
                message = f"{url} answered 200 without {probe.result}: {_error_message(body)}"
                return _Result(Answer(model.name, False, message, erred=True))
            answer = _no_answer(model, url, status, body)
            refused = refused or _not_its_trade(status, body)
            if status not in MISSING and not refused:
                return _Result(answer)
        return _Result(answer, served=False, refused=refused)

    async def close(self) -> None:
        """Close open connections."""
        if self._session is not None:
            await self._session.close()

    async def _fetch(
        self, method: str, url: str, request: Any, patience: float, limit: int = BODY_LIMIT
    ) -> tuple[int, dict[str, Any] | None]:
        if self._session is None:
            # Each probe opens a new connection: an old one may still lead to the previous cluster.
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        limits = aiohttp.ClientTimeout(total=patience, sock_connect=CONNECT_SECONDS)
        body_of = {"data" if isinstance(request, aiohttp.FormData) else "json": request}
        async with self._session.request(
            method, url, **body_of, allow_redirects=False, timeout=limits
        ) as response:
            content = b""
            async for chunk in response.content.iter_any():
                content += chunk
                if len(content) > limit:
                    raise ValueError(f"more than {limit} bytes for one token")
            try:
                body = orjson.loads(content)
            except ValueError:
                body = {"error": content[:MESSAGE_LIMIT].decode(errors="replace")}
            return response.status, body if isinstance(body, dict) else None


def _usual(model: Model) -> tuple[Task, ...]:
    """Return all tasks, the most likely first."""
    if model.engine.args.get("runner") == "pooling":
        return tuple(in_order((Task.EMBEDDINGS,), tuple(PROBES)))
    return tuple(PROBES)


def _no_answer(model: Model, url: str, status: int, body: dict[str, Any] | None) -> Answer:
    return Answer(
        model.name, False, f"{url} answered {status}: {_error_message(body)}", erred=status not in BUSY
    )


def _why(error: Exception) -> str:
    """Return a short cause of an error, without the address, which the caller reports."""
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(error.os_error.errno).lower()
    return str(error) or type(error).__name__


def _not_its_trade(status: int, body: dict[str, Any] | None) -> bool:
    """Return True if the engine reports that the model supports another task (transcription, scores, …)."""
    return status in (400, 404, 501) and "does not support" in _error_message(body)


def _error_message(body: dict[str, Any] | None) -> str:
    """Return the message of an OpenAI error in any of its forms."""
    error = (body or {}).get("error", body)
    if isinstance(error, dict):
        error = error.get("message", error.get("detail"))
    message = "" if error is None else error
    return " ".join(str(message).split())[:MESSAGE_LIMIT]
