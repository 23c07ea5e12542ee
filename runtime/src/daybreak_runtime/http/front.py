"""ASGI app in front of the engine's app: the direct port of a replica."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping

from daybreak_runtime.http import answers, fields, guard, paths, request_id
from daybreak_runtime.http.admission import Admission, Closed, QueueFull
from daybreak_runtime.http.asgi import App, Header, Message, Receive, Scope, Send
from daybreak_runtime.http.stored import missing
from daybreak_runtime.http.waiting import BodyStore, Waiting

HEALTH = "/-/healthz"
"""Health path of Serve: a gateway's backend has one health check for all its servers."""
_WAITING_BYTES = 256 * 2**20
NOT_BEGUN = 425
"""Status of a request that the engine has not begun. The engine never answers with it, so the gateway sends
the request to another replica."""
FINAL = b"x-daybreak-final"
"""Header of that response: the status for the client if no replica accepts the request."""
_PORT_CLOSED_SECONDS = 0.5
"""Seconds after the engine's death until the port is closed; a client that receives the response earlier
would return here."""
_RETRY_AFTER: Header = (b"retry-after", b"1")
_CLOSE: Header = (b"connection", b"close")


class EngineFront:
    """Front of the engine's app, which limits paths and concurrent requests, and reports its health.

    Args:
        app: App of the engine.
        admission: Limit and queue of the requests that are work for the engine.
        engine_well: Function that returns True if the engine can answer.
        own: Paths that the replica answers itself, each with a function that sends the response to a GET.
        engine_alive: Function that returns True unless the engine has died; requests for a dead one are not
            begun.
        stored: Function that returns True if a response of this id is stored here.
        log: Function that logs an ended request to the engine: its id, path, status (0: none was sent) and
            seconds.
    """

    def __init__(
        self,
        app: App,
        admission: Admission,
        engine_well: Callable[[], bool],
        *,
        own: Mapping[str, Callable[[Send], Awaitable[None]]] | None = None,
        engine_alive: Callable[[], bool] = lambda: True,
        stored: Callable[[str], bool] = lambda response_id: True,
        log: Callable[[str, str, int, float], None] = lambda request_id, path, status, seconds: None,
    ) -> None:
        self._app = app
        self._guard = guard.Guard(self._admitted)
        self._engine_well = engine_well
        self._engine_alive = engine_alive
        self._own = dict(own or {})
        self._stored = stored
        self._log = log
        self._bodies = BodyStore(_WAITING_BYTES)
        self._leaving = False
        self.admission = admission
        self.in_progress = 0
        """Current requests, waiting ones included, without health checks."""

    @property
    def open(self) -> bool:
        """True if new requests should come here."""
        return not self._leaving and self._engine_well()

    def leave(self) -> None:
        """Report the replica as closed; requests that arrive are still served."""
        self._leaving = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request of a connection."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        if scope["path"] in (HEALTH, fields.PATH):
            await answers.text(send, 200 if self.open else 503, str(self.in_progress))
            return
        looked_at = guard.stripped(scope)
        if looked_at is not None:
            scope, send = looked_at, answers.with_header(send, guard.SAID)
        # An unchecked request is read before it takes a place: a slow body takes none.
        engine = self._admitted if looked_at is None else self._guard
        name, began, status = request_id.of(scope), time.monotonic(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await plain_send(message)

        plain_send = request_id.given_back(send, name)
        if not self.open:
            plain_send = answers.with_header(plain_send, _CLOSE)
        self.in_progress += 1
        try:
            await self._answer(engine, scope, receive, noted)
        finally:
            self.in_progress -= 1
            if paths.asks_the_engine(scope["path"]):
                self._log(name.decode(), scope["path"], status, time.monotonic() - began)

    async def _answer(self, engine: App, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if (own := self._own.get(path)) is not None and method == "GET":
            await own(send)
            return
        taken = paths.methods(path)
        stored = paths.stored_response(path)
        if not taken:
            await answers.error(send, 404, f"There is no {path} here.", "not_found")
        elif method not in taken:
            allow = (b"allow", ", ".join(sorted(taken)).encode())
            message = f"{path} takes {' and '.join(sorted(taken))} only."
            await answers.error(send, 405, message, "method_not_allowed", headers=[allow])
        elif stored is not None and not self._stored(stored):
            await answers.error(send, 404, missing(stored), "response_not_found")
        elif not paths.asks_the_engine(path):
            await self._app(scope, receive, send)
        elif not self._engine_alive():
            await _gone(send)
        else:
            await engine(scope, receive, send)

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to the engine, immediately or when it is first in the queue."""
        if not self._engine_alive():
            await _gone(send)
        elif self.admission.try_enter():
            try:
                await self._app(scope, receive, _in_our_words(send))
            finally:
                self.admission.leave()
        else:
            await self._in_turn(scope, Waiting(receive, self._bodies), send)

    async def _in_turn(self, scope: Scope, waiting: Waiting, send: Send) -> None:
        """Answer when it is the request's turn; a client that leaves earlier leaves the queue."""
        try:
            if not await self._turn(waiting):
                return
            try:
                if self._engine_alive():
                    await self._app(scope, waiting.receive, _in_our_words(send))
                    return
            finally:
                self.admission.leave()
            await _gone(send)
        except QueueFull:
            message = f"{self.admission.waiting} requests wait here already: try again in a moment."
            headers = [_RETRY_AFTER, (FINAL, b"429")]
            await answers.error(
                send, NOT_BEGUN, message, "queue_full", kind="rate_limit_error", headers=headers
            )
        except Closed:
            await _gone(send)
        finally:
            waiting.close()

    async def _turn(self, waiting: Waiting) -> bool:
        """Wait for the turn. Returns False if the client has left before."""
        turn = asyncio.ensure_future(self.admission.enter())
        gone = asyncio.ensure_future(waiting.client_gone())
        try:
            await asyncio.wait((turn, gone), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not turn.cancel() and turn.exception() is None:
                self.admission.leave()
            raise
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
        if turn.done():
            await turn
            return True
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        return False


async def _gone(send: Send) -> None:
    await asyncio.sleep(_PORT_CLOSED_SECONDS)
    message = "The replica is being replaced: try again in a moment."
    headers = [_RETRY_AFTER, (FINAL, b"503")]
    await answers.error(send, NOT_BEGUN, message, "replica_gone", kind="server_error", headers=headers)


def _in_our_words(send: Send) -> Send:
    """Return a `send` that converts NOT_BEGUN to the format of this port.

    Code of Daybreak inside the engine's app can only raise NOT_BEGUN, and the app formats it in its own way.
    """
    pieces: list[bytes] | None = None

    async def sending(message: Message) -> None:
        nonlocal pieces
        if message["type"] == "http.response.start" and message["status"] == NOT_BEGUN:
            pieces = []
        elif pieces is None:
            await send(message)
        else:
            pieces.append(message.get("body", b""))
            if not message.get("more_body"):
                report = json.loads(b"".join(pieces))["error"]["message"]
                headers = [_RETRY_AFTER, (FINAL, b"503")]
                await answers.error(
                    send, NOT_BEGUN, report, "not_ready", kind="server_error", headers=headers
                )

    return sending
