"""HTTP responses of a replica about its adapters, as plain ASGI."""

import json
from typing import Any

from daybreak_runtime.http.front import NOT_BEGUN
from daybreak_runtime.lora.adapters import LOADING, Adapters

PATH = "/-/lora"
"""Path at which the operator reads the state of each adapter."""


async def answer(adapters: Adapters, send: Any) -> None:
    """Answer a request for PATH."""
    body = json.dumps(adapters.report()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def why_missing(adapters: Adapters, name: str) -> tuple[int, str] | None:
    """Return status and message for a configured adapter that is unavailable, or None for other names."""
    missing = adapters.missing(name)
    if missing is None:
        return None
    state, reason = missing
    if state == LOADING:
        return NOT_BEGUN, f"The adapter `{name}` is being loaded: try again in a moment."
    return 404, f"The adapter `{name}` cannot be used: {reason}."
