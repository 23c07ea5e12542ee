"""The server below the port: uvicorn, on the event loop that the engine's client runs on."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from daybreak_runtime.http.asgi import App

KEEP_ALIVE_SECONDS = 90
"""How long an idle connection stays open: longer than the gateway keeps one, so that the gateway never sends
on one that is just being closed."""
_BIND_SECONDS = 30.0
"""How long to try while somebody else has the port: a replica that was here before may be ending."""
_START_SECONDS = 30.0


class _Server(uvicorn.Server):  # type: ignore[misc]  # uvicorn is only in the Ray images
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to Ray."""
        yield


class Listener:
    """An HTTP server for an app.

    Args:
        app: What answers.
    """

    def __init__(self, app: App) -> None:
        self.server: Any = _Server(
            uvicorn.Config(
                app,
                loop="none",
                http="httptools",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
        )
        """What vLLM's handlers of errors stop when its engine has died."""
        self._task: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self, port: int) -> None:
        """Listen on a port of all addresses, from when this returns on.

        Raises:
            OSError: Somebody else has the port, for longer than a replica takes to end.
            RuntimeError: The app or the server did not start.
        """
        sock = await _bound(port)
        self.port = sock.getsockname()[1]
        self._task = asyncio.create_task(self.server.serve(sockets=[sock]))
        async with asyncio.timeout(_START_SECONDS):
            while not self.server.started:
                if self._task.done():
                    await self._task
                    raise RuntimeError(f"the HTTP server on port {self.port} ended as it started")
                await asyncio.sleep(0.02)

    @property
    def ended(self) -> bool:
        """Whether it does not serve any more."""
        return self._task is None or self._task.done()

    @property
    def closing(self) -> bool:
        """Whether it takes no more connections."""
        return bool(self.server.should_exit)

    async def stop(self, seconds: float) -> None:
        """Close the port, and wait for the requests in progress, though no longer than this."""
        self.server.should_exit = True
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)


async def _bound(port: int) -> socket.socket:
    deadline = asyncio.get_running_loop().time() + _BIND_SECONDS
    while True:
        try:
            return _listening(port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(0.25)


def _listening(port: int) -> socket.socket:
    """A socket for IPv6 and IPv4 alike, or for IPv4 alone where the kernel has no IPv6."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ("::", port), family=socket.AF_INET6, backlog=2048, dualstack_ipv6=True
            )
    return socket.create_server(("0.0.0.0", port), backlog=2048)  # noqa: S104 - the NetworkPolicy decides
