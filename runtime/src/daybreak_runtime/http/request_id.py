"""X-Request-Id: taken from the client, or made, and given back with every answer."""

import re
import uuid

from daybreak_runtime.http.asgi import Header, Message, Scope, Send

NAME = b"x-request-id"
_TAKEN = re.compile(rb"[!-~]{1,128}")
"""What a client may choose: it stands in logs and in the engine's own ids."""


def of(scope: Scope) -> bytes:
    """The request's id. One that is made here, or that replaces an unfit one, stands in the scope then."""
    headers: list[Header] = list(scope["headers"])
    given = [value for name, value in headers if name.lower() == NAME]
    if len(given) == 1 and _TAKEN.fullmatch(given[0]):
        return given[0]
    made = uuid.uuid4().hex.encode()
    scope["headers"] = [*((name, value) for name, value in headers if name.lower() != NAME), (NAME, made)]
    return made


def given_back(send: Send, request_id: bytes) -> Send:
    """A `send` that adds the id to the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            others = (header for header in message.get("headers", ()) if header[0].lower() != NAME)
            message = {**message, "headers": [*others, (NAME, request_id)]}
        await send(message)

    return sending
