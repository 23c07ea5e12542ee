"""The look at bodies in front of the engine's app: their fields, and how slowly they may come.

Gateways send requests to be looked at to paths that begin with `fields.PATH`. All others they have looked at
themselves: by their own list, and with the fields that the service lets pass beside.
"""

import asyncio
import time
from collections.abc import Callable

from daybreak_runtime.http import answers, fields
from daybreak_runtime.http.asgi import App, Header, Message, Receive, Scope, Send

_BEGINNING = f"{fields.PATH}/"
SAID: Header = (b"x-daybreak-guard", b"1")
"""In each answer to such a request: who has nothing at its path does not say so."""
_GRACE_SECONDS = 30.0
"""How long a body may take, however it comes: as the gateway has it."""
_PACE = 16 * 2**10
"""Bytes per second that it must have come at from then on."""


class _TooSlow(Exception):
    """A body has taken longer than it may."""


class _Gone(Exception):
    """The client has left before its body was whole."""


def stripped(scope: Scope) -> Scope | None:
    """The request as its client has sent it, if its body is to be looked at; None: it is not."""
    if not scope["path"].startswith(_BEGINNING):
        return None
    path = scope["path"].removeprefix(fields.PATH)
    return {**scope, "path": path, "raw_path": path.encode()}


class Guard:
    """Passes a request on to the app when its body is whole, and nothing in it is refused.

    Args:
        app: The engine's app.
        clock: Seconds that only grow.
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
        """The body. Raises _Gone and _TooSlow."""
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
    """A `receive` that gives the body once more, and then what the server's does."""
    given = False

    async def receiving() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving
