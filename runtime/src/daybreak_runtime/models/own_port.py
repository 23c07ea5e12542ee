"""Direct port of a replica without Serve's proxy: if the pod has `DAYBREAK_HTTP_PORT`, as for LLMs."""

import os
from collections.abc import Callable

from daybreak_runtime.http import answers
from daybreak_runtime.http.asgi import Receive, Scope, Send
from daybreak_runtime.http.listener import Listener
from daybreak_runtime.models.replica import Models, refused
from daybreak_runtime.v2.problem import Problem

PORT = "DAYBREAK_HTTP_PORT"
HEALTH = "/-/healthz"
MOST_BYTES = 512 * 2**20
"""Maximum bytes of a body; a longer one is rejected before it is read."""


class OwnPort:
    """Server of a port of the replica, without Serve in between.

    Args:
        models: Models that answer.
    """

    def __init__(self, models: Models) -> None:
        self._models = models
        self._listener = Listener(self)
        self.requests = 0
        """Number of requests in progress."""

    async def start(self, port: int) -> None:
        """Start listening. Raises OSError if the port is in use."""
        await self._listener.start(port)

    @property
    def ended(self) -> bool:
        """True if it no longer listens."""
        return self._listener.ended

    async def stop(self, seconds: float) -> None:
        """Close the port when the requests in progress are done, or at the latest after `seconds`."""
        await self._listener.stop(seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request as an ASGI app."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["path"] == HEALTH:
            await answers.text(send, 200, str(self.requests))
        else:
            self.requests += 1
            try:
                await self._answer(scope, receive, send)
            finally:
                self.requests -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        length = headers.get("content-length", "0")
        parts, size, more = [], 0, True
        too_long = length.isdecimal() and int(length) > MOST_BYTES
        while more and not too_long:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            too_long = size > MOST_BYTES
            more = message.get("more_body", False)
        if too_long:
            status, report, body = refused(Problem(f"the body is longer than {MOST_BYTES} bytes", 413))
        else:
            status, report, body = await self._models.answer(
                scope["method"], scope["path"], headers, b"".join(parts)
            )
        written = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in report.items()]
        written.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": written})
        await send({"type": "http.response.body", "body": body})


async def opened(models: Models, environ: Callable[[str], str | None] = os.environ.get) -> OwnPort | None:
    """Return the open port that the pod names, or None if it names none."""
    reported = environ(PORT)
    if not reported:
        return None
    port = OwnPort(models)
    await port.start(int(reported))
    return port


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
