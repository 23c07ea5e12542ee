"""Check of bodies in front of the engine's app: their fields, and their speed.

Gateways send unchecked requests to paths that begin with `fields.PATH`. They have checked all others
themselves: by their own list, and with the fields that the service allows in addition.
"""

import asyncio
import time
from collections.abc import Callable

from daybreak_runtime.http import answers, fields
from daybreak_runtime.http.asgi import App, Header, Message, Receive, Scope, Send

_BEGINNING = f"{fields.PATH}/"
SAID: Header = (b"x-daybreak-guard", b"1")
"""Header of each response to an unchecked request. A server without the path does not send it."""
_GRACE_SECONDS = 30.0
"""Seconds that a body may take at any speed, as in the gateway."""
_PACE = 16 * 2**10
"""Minimum speed afterwards, in bytes per second."""


class _TooSlow(Exception):
    """A body has taken too long."""


class _Gone(Exception):
    """The client has left before its body was complete."""


def stripped(scope: Scope) -> Scope | None:
    """Return the request as its client has sent it if its body must be checked, or None."""
    if not scope["path"].startswith(_BEGINNING):
        return None
    path = scope["path"].removeprefix(fields.PATH)
    return {**scope, "path": path, "raw_path": path.encode()}


class Guard:
    """App that forwards a request when its body is complete and nothing in it is rejected.

    Args:
        app: App of the engine.
        clock: Monotonic seconds.
    """

    def __init__(self, app: App, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request to the engine."""
        try:
            body = await self._whole(receive)
        except _Gone:
            return
        except _TooSlow:
            why = "The request did not arrive in time."
            await answers.error(send, 408, why, "request_timeout", headers=[(b"connection", b"close")])
            return
        if fields.looks_at(scope["path"]):
            refused = fields.refused(scope["path"], body)
            if refused is not None:
                await answers.error(send, 400, refused.message, "invalid_body", param=refused.param)
                return
        await self._app(scope, _again(body, receive), send)

    async def _whole(self, receive: Receive) -> bytes:
        """Return the body. Raises _Gone and _TooSlow."""
        began, size, pieces = self._clock(), 0, []
        while True:
            left = began + _GRACE_SECONDS + size / _PACE - self._clock()
            if left <= 0:
                raise _TooSlow
            try:
                async with asyncio.timeout(left):
                    message = await receive()
            except TimeoutError:
                raise _TooSlow from None
            if message["type"] != "http.request":
                raise _Gone
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            if not message.get("more_body"):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns the body once more, and then the server's messages."""
    given = False

    async def receiving() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving
