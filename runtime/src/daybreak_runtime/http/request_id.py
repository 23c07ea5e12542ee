"""X-Request-Id: accepted from the client, or generated, and returned with every response."""

import re
import uuid

from daybreak_runtime.http.asgi import Header, Message, Scope, Send

NAME = b"x-request-id"
_TAKEN = re.compile(rb"[!-~]{1,128}")
"""Allowed ids of clients, because they appear in logs and in the engine's ids."""


def of(scope: Scope) -> bytes:
    """Return the request's id. A generated id, which also replaces an invalid one, is set in the scope."""
    headers: list[Header] = list(scope["headers"])
    given = [value for name, value in headers if name.lower() == NAME]
    if len(given) == 1 and _TAKEN.fullmatch(given[0]):
        return given[0]
    made = uuid.uuid4().hex.encode()
    scope["headers"] = [*((name, value) for name, value in headers if name.lower() != NAME), (NAME, made)]
    return made


def given_back(send: Send, request_id: bytes) -> Send:
    """Return a `send` that adds the id to the response."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            others = (header for header in message.get("headers", ()) if header[0].lower() != NAME)
            message = {**message, "headers": [*others, (NAME, request_id)]}
        await send(message)

    return sending
