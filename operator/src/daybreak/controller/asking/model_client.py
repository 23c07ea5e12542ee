"""Asking a model for an answer: the only proof that it gives one.

Behind a gateway it is asked past it: whether requests get there, only the gateways know. A status of 200 is
no answer yet: a server may send it with nothing in it, or with an error.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import aiohttp
import orjson

from daybreak.api.common.unstructured import mapping, mappings, number, text, whole
from daybreak.api.ray.model import Model
from daybreak.controller.asking.answer import Answer

CONNECT_SECONDS = 3.0
BODY_LIMIT = 256 * 1024
"""How much of an answer is read, in bytes: far more than one token, far less than a mistake could send."""
MESSAGE_LIMIT = 300
BUSY = (429, 503)
"""What a server answers that has no room for one more question: nothing of the model."""


class Asked(Protocol):
    """A workload with models."""

    @property
    def namespace(self) -> str:
        """Its namespace."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...


class ModelClient(Protocol):
    """The client that asks. Tests without a cluster network pass their own."""

    async def ask(self, service: Asked, model: Model, base: str, patience: float, path: str = "") -> Answer:
        """Ask the model for one answer at a base URL, and wait so many seconds for it.

        `path`: where 200 is an answer; empty: it is asked for one by OpenAI's API.
        """
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...


class HttpModelClient:
    """Asks over HTTP: is the model listed, and does it complete one token (or embed one word)?"""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, service: Asked, model: Model, base: str, patience: float, path: str = "") -> Answer:
        """Ask the model for one answer at a base URL, and wait so many seconds for it."""
        try:
            if path:
                status, body = await self._fetch("GET", f"{base}{path}", None, patience)
                if status == 200:
                    return Answer(model.name, True)
                return _no_answer(model, f"{base}{path}", status, body)
            status, body = await self._fetch("GET", f"{base}/models", None, patience)
            if status != 200:
                return _no_answer(model, f"{base}/models", status, body)
            listed = [item.get("id") for item in mappings(mapping(body).get("data"))]
            if model.name not in listed:
                only = f"{base}/models does not list it, only {', '.join(map(str, listed))}"
                return Answer(model.name, False, only, erred=True)
            path, request = question(model)
            status, body = await self._fetch("POST", f"{base}{path}", request, patience)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return Answer(model.name, False, f"{base} does not answer: {_why(error)}")
        what, is_there = _ANSWERS[path]
        if _not_its_trade(status, body) or (status == 200 and is_there(body or {})):
            return Answer(model.name, True)
        if status == 200:
            said = f"{base}{path} answered 200 without {what}: {_said(body)}"
            return Answer(model.name, False, said, erred=True)
        return _no_answer(model, f"{base}{path}", status, body)

    async def close(self) -> None:
        """Close what is open."""
        if self._session is not None:
            await self._session.close()

    async def _fetch(
        self, method: str, url: str, request: dict[str, Any] | None, patience: float
    ) -> tuple[int, dict[str, Any] | None]:
        if self._session is None:
            # A new connection for each question: an old one may still lead to the cluster before.
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        limits = aiohttp.ClientTimeout(total=patience, sock_connect=CONNECT_SECONDS)
        async with self._session.request(
            method, url, json=request, allow_redirects=False, timeout=limits
        ) as response:
            content = b""
            async for chunk in response.content.iter_any():
                content += chunk
                if len(content) > BODY_LIMIT:
                    raise ValueError(f"more than {BODY_LIMIT} bytes for one token")
            try:
                body = orjson.loads(content)
            except ValueError:
                body = {"error": content[:MESSAGE_LIMIT].decode(errors="replace")}
            return response.status, body if isinstance(body, dict) else None


def question(model: Model) -> tuple[str, dict[str, Any]]:
    """Path and body of the smallest request that makes the engine compute."""
    if model.engine.args.get("runner") == "pooling":
        return "/embeddings", {"model": model.name, "input": "Hello"}
    return "/completions", {"model": model.name, "prompt": "Hello", "max_tokens": 1, "temperature": 0}


def _completed(body: Mapping[str, Any]) -> bool:
    """Whether a completion is there: its text, or as many tokens as make none, such as the end."""
    choices = mappings(body.get("choices"))
    said = [text(each.get("text")) or text(mapping(each.get("message")).get("content")) for each in choices]
    tokens = whole(mapping(body.get("usage")).get("completion_tokens"))
    return bool(choices) and (any(said) or tokens > 0)


def _embedded(body: Mapping[str, Any]) -> bool:
    """Whether an embedding is there: numbers, or their digits in base64."""
    found = [each.get("embedding") for each in mappings(body.get("data"))]
    return any(text(each) or _numbers(each) for each in found)


def _numbers(found: object) -> bool:
    return isinstance(found, list) and bool(found) and all(number(each) is not None for each in found)


_ANSWERS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], bool]]] = {
    "/completions": ("a completion", _completed),
    "/embeddings": ("an embedding", _embedded),
}
"""What an answer is, in words and by its body, at each path that is asked."""


def _no_answer(model: Model, url: str, status: int, body: dict[str, Any] | None) -> Answer:
    return Answer(model.name, False, f"{url} answered {status}: {_said(body)}", erred=status not in BUSY)


def _why(error: Exception) -> str:
    """What went wrong, in few words: the address is said already."""
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(error.os_error.errno).lower()
    return str(error) or type(error).__name__


def _not_its_trade(status: int, body: dict[str, Any] | None) -> bool:
    """The engine is there and says that this model does something else (transcribes, scores, …)."""
    return status in (400, 404, 501) and "does not support" in _said(body)


def _said(body: dict[str, Any] | None) -> str:
    """The message of an OpenAI error, in whichever of its forms."""
    error = (body or {}).get("error", body)
    message = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(message).split())[:MESSAGE_LIMIT]
