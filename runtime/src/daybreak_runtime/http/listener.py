"""HTTP server of the port: uvicorn, on the event loop of the engine's client."""

import asyncio
import contextlib
import errno
import socket
import struct
import sys
from collections.abc import Iterator
from ctypes import addressof, create_string_buffer
from typing import Any

import uvicorn

from daybreak_runtime.http import answers
from daybreak_runtime.http.asgi import App, Receive, Scope, Send

KEEP_ALIVE_SECONDS = 90
"""Seconds for which an idle connection stays open: longer than in the gateway, so that the gateway never
sends a request on a closing connection."""
_BIND_SECONDS = 30.0
"""Seconds to retry while another process has the port: a previous replica may be ending."""
_START_SECONDS = 30.0
_HANDSHAKE_SECONDS = 0.05
"""Seconds that a connection may need to be established after its first packet was accepted: a few round
trips."""
IDLE_SECONDS = 3.0
"""Seconds for which connections are kept after the port is closed: longer than the gateway keeps an idle one,
so that none is closed while the gateway sends on it."""
_LOOK_SECONDS = 0.05
_SO_ATTACH_FILTER = 26
_CLOSE = (b"connection", b"close")
_NO_NEW_CONNECTIONS = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, 13),  # the byte of TCP's flags
        (0x45, 0, 1, 0x02),  # SYN?
        (0x06, 0, 0, 0),  # then drop the packet
        (0x06, 0, 0, 0xFFFFFFFF),  # otherwise keep all of it
    )
)
"""Kernel filter (classic BPF) for packets to a listening socket."""


class _Server(uvicorn.Server):  # type: ignore[misc]  # uvicorn is only in the Ray images
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to Ray."""
        yield


class Listener:
    """HTTP server for an app.

    Args:
        app: App that answers.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._refusing = False
        self._socket: socket.socket | None = None
        self.server: Any = _Server(
            uvicorn.Config(
                self._answer,
                interface="asgi3",
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
        """Server that vLLM's error handlers stop when its engine has died."""
        self._task: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self, port: int) -> None:
        """Listen on a port of all addresses before returning.

        Raises:
            OSError: Another process has the port for longer than a replica takes to end.
            RuntimeError: The app or the server did not start.
        """
        sock = self._socket = await _bound(port)
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
        """True if the server no longer serves."""
        return self._task is None or self._task.done()

    @property
    def closing(self) -> bool:
        """True if the server accepts no more connections."""
        return self._refusing or bool(self.server.should_exit)

    @property
    def _connected(self) -> bool:
        """True if there is a connection."""
        return not self.ended and bool(self.server.server_state.connections)

    async def stop(self, seconds: float, idle_seconds: float = IDLE_SECONDS) -> None:
        """Close the port, and wait for the requests in progress.

        A gateway continues to send until a connection is refused. It sends a refused request again, but not
        one that it has sent on a connection that is then closed. Therefore the port is closed first, after
        all established connections were accepted. Requests on them are answered, and connections end with
        their responses, or after an idle time.

        Args:
            seconds: Maximum total time.
            idle_seconds: Time for which connections without a request are kept.
        """
        if self._task is None:
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        await self._refuse()
        idle_until = min(until, loop.time() + idle_seconds)
        while self._connected and loop.time() < idle_until:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(_LOOK_SECONDS)
        self.server.should_exit = True
        await asyncio.wait([self._task], timeout=max(0.0, until - loop.time()))

    async def _refuse(self) -> None:
        """Accept all established connections, and no more."""
        self._refusing = True
        if self._socket is None or self.server.should_exit:
            return
        # The client repeats a dropped first packet after a second, and is then refused.
        with contextlib.suppress(OSError):
            _take_no_new(self._socket)
        # Until then the event loop accepts the established connections.
        await asyncio.sleep(_HANDSHAKE_SECONDS)
        for server in self.server.servers:
            server.close()
        self._socket.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the app. Once no more connections are accepted, each ends with its response."""
        if self._refusing and scope["type"] == "http":
            send = answers.with_header(send, _CLOSE)
        await self._app(scope, receive, send)


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
    """Return a socket for IPv6 and IPv4, or for IPv4 only if the kernel has no IPv6."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(
                ("::", port), family=socket.AF_INET6, backlog=2048, dualstack_ipv6=True
            )
    return socket.create_server(("0.0.0.0", port), backlog=2048)  # noqa: S104 - the NetworkPolicy decides


def _take_no_new(sock: socket.socket) -> None:
    """Make the kernel drop the first packet of each new connection.

    Raises OSError if it has no such filters.
    """
    if sys.platform != "linux":
        return
    program = create_string_buffer(_NO_NEW_CONNECTIONS)
    count = len(_NO_NEW_CONNECTIONS) // struct.calcsize("HBBI")
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", count, addressof(program)))
