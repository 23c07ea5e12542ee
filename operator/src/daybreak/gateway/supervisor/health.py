"""What the kubelet asks, `/healthz` and `/readyz`: how the HAProxies are, not whether the agent lives."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from daybreak.gateway.haproxy.connections import close_connection

HEAD_SECONDS = 5.0
"""How long a request's head may take."""
SAID_SECONDS = 10.0
"""How long it holds what an agent has said of HAProxy: the next one finds out for itself."""
ALONE_SECONDS = 60.0
"""How long a gateway without a working agent is sent new requests: its gates are not moved meanwhile."""


class Health:
    """What is known of the gateway's health, from what its agents have said last."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._was_ready = False
        self._unready = "the agent has not started"
        self._unhealthy = ""
        self.draining = False
        """Whether the pod is to end."""
        self.heard = float("-inf")
        """When an agent said something last."""

    def beat(self, said: Mapping[str, Any]) -> None:
        """Take in what an agent says: why it is not ready, and what of HAProxy is not well."""
        self.heard = self._clock()
        self._unready, self._unhealthy = str(said["unready"]), str(said["unhealthy"])
        self._was_ready = self._was_ready or not self._unready

    @property
    def alone(self) -> bool:
        """Whether no agent has been at work for long."""
        return self._clock() - self.heard > ALONE_SECONDS

    @property
    def unhealthy(self) -> str:
        """Why the container should be started afresh; empty: it should not."""
        return "" if self.draining or self._silent else self._unhealthy

    @property
    def unready(self) -> str:
        """Why requests should not be sent here; empty: they may.

        HAProxy goes on without an agent, and with one that has yet to read what is in the cluster.
        """
        if self.draining:
            return "draining"
        if not self._was_ready:
            return self._unready
        if self.alone:
            return f"the agent has not worked for {ALONE_SECONDS:.0f} s"
        return "" if self._silent else self._unhealthy

    @property
    def _silent(self) -> bool:
        return self._clock() - self.heard > SAID_SECONDS


class HealthServer:
    """A small HTTP server for two pages."""

    def __init__(self, health: Health, port: int) -> None:
        self._health = health
        self._port = port
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._answer, None, self._port, limit=8192)

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._page(head.split(b" ", 2)[1]))
                await writer.drain()
        except (OSError, TimeoutError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            close_connection(writer)

    def _page(self, path: bytes) -> bytes:
        pages = {b"/healthz": self._health.unhealthy, b"/readyz": self._health.unready}
        why = pages.get(path)
        status = "404 Not Found" if why is None else "503 Service Unavailable" if why else "200 OK"
        text = (why or "ok").encode() if why is not None else b"not found"
        return (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        ).encode() + text
