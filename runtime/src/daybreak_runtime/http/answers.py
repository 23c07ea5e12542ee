"""Responses that do not come from the engine's app: plain text, and errors in OpenAI's format.

It also adds headers to any response.
"""

import json
from collections.abc import Iterable
from typing import Any

from daybreak_runtime.http.asgi import Header, Message, Send


async def text(send: Send, status: int, body: str) -> None:
    """Send a response of plain text."""
    await _send(send, status, body.encode(), b"text/plain; charset=utf-8", ())


async def error(
    send: Send,
    status: int,
    message: str,
    code: str,
    *,
    param: str | None = None,
    kind: str | None = None,
    headers: Iterable[Header] = (),
) -> None:
    """Send an error in the format of OpenAI's clients.

    Args:
        code: Code of the error, for programs.
        kind: Type of the error. Defaults to the type of the status.
        param: Field of the request that is wrong.
    """
    kind = kind or ("invalid_request_error" if status < 500 else "server_error")
    document: dict[str, Any] = {"message": message, "type": kind, "param": param, "code": code}
    await _send(send, status, json.dumps({"error": document}).encode(), b"application/json", headers)


def with_header(send: Send, header: Header) -> Send:
    """Return a `send` that adds a header to the response."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), header]}
        await send(message)

    return sending


async def _send(send: Send, status: int, body: bytes, kind: bytes, headers: Iterable[Header]) -> None:
    sent = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})
