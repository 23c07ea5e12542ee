"""Asking a model for an answer: the only proof that it gives one.

Behind a gateway it is asked past it: whether requests get there, only the gateways know.
"""

import os
from typing import Any, Protocol

import aiohttp
import orjson

from daybreak.api.common.unstructured import mapping, mappings
from daybreak.api.ray.model import Model
from daybreak.controller.asking.answer import Answer

CONNECT_SECONDS = 3.0
BODY_LIMIT = 256 * 1024
"""How much of an answer is read, in bytes: far more than one token, far less than a mistake could send."""
MESSAGE_LIMIT = 300


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
    """Who asks. Tests without a cluster network pass their own."""

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
                return Answer(model.name, False, f"{base}{path} answered {status}: {_said(body)}")
            status, body = await self._fetch("GET", f"{base}/models", None, patience)
            if status != 200:
                return Answer(model.name, False, f"{base}/models answered {status}: {_said(body)}")
            listed = [item.get("id") for item in mappings(mapping(body).get("data"))]
            if model.name not in listed:
                return Answer(
                    model.name, False, f"{base}/models does not list it, only {', '.join(map(str, listed))}"
                )
            path, request = question(model)
            status, body = await self._fetch("POST", f"{base}{path}", request, patience)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return Answer(model.name, False, f"{base} does not answer: {_why(error)}")
        if status == 200 or _not_its_trade(status, body):
            return Answer(model.name, True)
        return Answer(model.name, False, f"{base}{path} answered {status}: {_said(body)}")

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
