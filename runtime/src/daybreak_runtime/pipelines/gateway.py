"""Client of any service of the namespace through its gateway, which wakes the service.

Example: `await gateway.chat("m", messages)`.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import numpy as np

from daybreak_runtime.http.retry_after import retry_after
from daybreak_runtime.v2.problem import Problem
from daybreak_runtime.v2.tensor import Array, datatype_of, from_json, texts, to_json

ADDRESS, KEY = "DAYBREAK_GATEWAY", "DAYBREAK_GATEWAY_KEY"
"""Variables of the pod with another address, and with the API key."""
DEFAULT = "http://llm"
"""Address of the namespace's gateway."""
NOT_BEGUN = (425, 429, 503)
"""Status codes of requests that no server has begun: they are sent again after the response's delay."""
_PAUSE_SECONDS = 1.0


class Gateway:
    """HTTP client of services. The time of a request includes a wake of the service, so allow minutes.

    Args:
        url: Address without `/v1`. Defaults to that of the namespace.
        key: API key. Defaults to `DAYBREAK_GATEWAY_KEY` of the environment.
        within: Seconds for each request, wakes included.
    """

    def __init__(self, url: str = "", key: str = "", within: float = 900.0) -> None:
        self.url = (url or os.environ.get(ADDRESS) or DEFAULT).rstrip("/")
        self._key = key or os.environ.get(KEY, "")
        self._within = within
        self._session: aiohttp.ClientSession | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A connection belongs to its process.
        return {**self.__dict__, "_session": None}

    async def chat(self, model: str, messages: Sequence[Mapping[str, Any]], **parameters: Any) -> str:
        """Return the answer of an LLM. Raises Problem with the gateway's status."""
        message = await self.post(
            "/v1/chat/completions", {"model": model, "messages": list(messages), **parameters}
        )
        return str(message["choices"][0]["message"]["content"] or "")

    async def chat_stream(
        self, model: str, messages: Sequence[Mapping[str, Any]], **parameters: Any
    ) -> AsyncIterator[str]:
        """Yield the answer of an LLM, piece by piece. Raises Problem, also in the middle."""
        body = {"model": model, "messages": list(messages), **parameters, "stream": True}
        async with self._answered("/v1/chat/completions", body) as response:
            async for line in response.content:
                text = line.decode().strip()
                if not text.startswith("data:"):
                    continue
                text = text.removeprefix("data:").strip()
                if text == "[DONE]":
                    return
                report = json.loads(text)
                if "error" in report:
                    raise Problem(f"{model}: {_message(report)}", 502)
                piece = report["choices"][0]["delta"].get("content") if report.get("choices") else None
                if piece:
                    yield piece
            raise Problem(f"{model}: the stream ended in the middle", 502)

    async def infer(
        self, model: str, *, version: str = "", path: str = "", **inputs: Any
    ) -> dict[str, Array]:
        """Return outputs of a V2 model by name, for arrays or lists of texts or numbers.

        `path` precedes /v2.
        """
        tensors = []
        for name, value in inputs.items():
            array = _array(value)
            datatype = datatype_of(array)
            shape = list(array.shape)
            tensors.append({"name": name, "datatype": datatype, "shape": shape, "data": to_json(array)})
        below = f"/versions/{version}" if version else ""
        message = await self.post(f"{path}/v2/models/{model}{below}/infer", {"inputs": tensors})
        return {
            each["name"]: from_json(each["name"], each["datatype"], each["shape"], each["data"])
            for each in message["outputs"]
        }

    async def post(self, path: str, body: Any) -> Any:
        """Send JSON to any path of the gateway, and return its JSON. Raises Problem."""
        async with self._answered(path, body) as response:
            return json.loads(await response.read())

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def _answered(self, path: str, body: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            self._session = aiohttp.ClientSession(headers=headers)
        until = time.monotonic() + self._within
        while True:
            left = max(until - time.monotonic(), 0.001)
            limits = aiohttp.ClientTimeout(total=left, sock_connect=30)
            try:
                async with self._session.post(f"{self.url}{path}", json=body, timeout=limits) as response:
                    if response.status == 200:
                        yield response
                        return
                    problem = Problem(_read_error(await response.read()), response.status)
                    pause = retry_after(response.headers.get("Retry-After"))
            except TimeoutError as error:
                raise Problem(f"{self.url}{path} took longer than {self._within:g} s", 504) from error
            except aiohttp.ClientError as error:
                raise Problem(f"{self.url}{path}: {type(error).__name__}: {error}", 502) from error
            wait = (pause or _PAUSE_SECONDS) * random.uniform(1.0, 1.3)  # noqa: S311 -- spread
            if problem.status not in NOT_BEGUN or time.monotonic() + wait > until:
                raise problem
            await asyncio.sleep(wait)


def _array(value: Any) -> Array:
    if isinstance(value, list) and value and isinstance(value[0], str | bytes):
        return texts(value)
    return np.asarray([value] if isinstance(value, str | int | float) else value)


def _read_error(body: bytes) -> str:
    try:
        return _message(json.loads(body))
    except ValueError:
        return body.decode(errors="replace")[:300]


def _message(report: Any) -> str:
    error = report.get("error", report) if isinstance(report, dict) else report
    return str(error.get("message", error) if isinstance(error, dict) else error)[:500]
