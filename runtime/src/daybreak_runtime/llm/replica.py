"""Direct port of a replica, from its opening to its end."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from daybreak_runtime.http.admission import Admission
from daybreak_runtime.http.asgi import Send
from daybreak_runtime.http.front import EngineFront
from daybreak_runtime.http.listener import Listener
from daybreak_runtime.llm import settings
from daybreak_runtime.llm.engine import Engine

log = logging.getLogger("ray.serve")

_LOOK_SECONDS = 0.25
"""Seconds between two checks whether the engine is alive and the limit has grown."""
_LAST_ANSWERS_SECONDS = 3.0
"""Maximum seconds for responses to current requests when the engine has died."""
_LAST_IDLE_SECONDS = 0.5
"""Maximum seconds for which connections may then be without a request. Serve's routers prefer a dead replica
while it exists."""
_ENGINE_END_SECONDS = 5.0

OwnPaths = Mapping[str, Callable[[Send], Awaitable[None]]]
"""Paths of the port that the replica answers itself, each with a function that sends the response to a
GET."""


def _log_access(request_id: str, path: str, status: int, seconds: float) -> None:
    """Write a line of Serve's access log: in its format, and disabled together with its lines."""
    extra = {"request_id": request_id, "serve_access_log": True}
    log.info("POST %s %d %.1fms", path, status, 1000 * seconds, extra=extra)


class Replica:
    """vLLM's app on a port of the replica's pod.

    Args:
        engine: Started engine.
        app: App of the engine.
        own: Other paths of the port.
        ready: Function that returns True if requests may come, independent of engine and port.
    """

    def __init__(self, engine: Engine, app: Any, own: OwnPaths, ready: Callable[[], bool]) -> None:
        self._engine = engine
        admission = Admission(settings.max_ongoing_requests, settings.most_waiting)
        self._door = EngineFront(
            app,
            admission,
            lambda: self._well() and ready(),
            own=own,
            engine_alive=lambda: not engine.dead,
            stored=engine.has_response,
            log=_log_access,
        )
        self._listener = Listener(self._door)
        # vLLM's error handlers close the port when they find a dead engine.
        app.state.server = self._listener.server
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start listening before returning."""
        await self._listener.start(settings.port())
        self._watching = asyncio.create_task(self._watch())
        log.info("The replica serves on port %d of its pod.", self._listener.port)

    @property
    def requests(self) -> int:
        """Number of requests in the engine, from any source, and of those that wait at the port."""
        return self._engine.unfinished + self._door.admission.waiting

    def check(self) -> None:
        """Raise if the port no longer serves."""
        if self._listener.ended:
            raise RuntimeError("the replica's HTTP server has ended")

    async def stop(self) -> None:
        """End in order: fail health checks, accept no more connections, finish current requests."""
        if self._watching is not None:
            self._watching.cancel()
        observed = settings.notice_seconds() if self._well() else 0.0
        self._door.leave()
        await asyncio.sleep(observed)
        await self._listener.stop(settings.graceful_shutdown_seconds())

    def _well(self) -> bool:
        return not self._engine.dead and not self._listener.closing

    async def _watch(self) -> None:
        """Admit requests when the limit has grown; end the process once the engine has died."""
        while not self._engine.dead:
            await asyncio.sleep(_LOOK_SECONDS)
            self._door.admission.let_in()
        await self._die()

    async def _die(self) -> None:
        """Answer current requests, and end the process.

        A replica with a dead engine immediately answers every request with an error, so Serve's routers
        prefer it; they would choose it until Serve's third failed health check. They do not choose a replica
        that has ended, and Serve starts the next one.
        """
        log.error("The engine has died: the replica ends.")
        try:
            self._door.admission.close()
            # The engine's client answers current requests, with an error each.
            await self._listener.stop(_LAST_ANSWERS_SECONDS, _LAST_IDLE_SECONDS)
            async with asyncio.timeout(_ENGINE_END_SECONDS):
                await asyncio.to_thread(self._engine.shutdown)
        except Exception:
            log.exception("The end of a replica without an engine was not in order.")
        finally:
            os._exit(1)
