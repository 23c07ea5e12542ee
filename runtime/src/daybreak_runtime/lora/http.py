"""What a replica answers about its adapters over HTTP, as plain ASGI."""

import json
from typing import Any

from daybreak_runtime.http.door import NOT_BEGUN
from daybreak_runtime.lora.adapters import LOADING, Adapters

PATH = "/-/lora"
"""Where the operator asks how each adapter is."""


async def answer(adapters: Adapters, send: Any) -> None:
    """Answer a request for PATH."""
    body = json.dumps(adapters.report()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def why_missing(adapters: Adapters, name: str) -> tuple[int, str] | None:
    """Status and words for who asks for an adapter that is configured and not there; None for other names."""
    missing = adapters.missing(name)
    if missing is None:
        return None
    state, reason = missing
    if state == LOADING:
        return NOT_BEGUN, f"The adapter `{name}` is being loaded: try again in a moment."
    return 404, f"The adapter `{name}` cannot be used: {reason}."
