"""Probes of the kubelet, `/healthz` and `/readyz`: the state of the HAProxies, not of the agent."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from daybreak.gateway.haproxy.connections import close_connection

HEAD_SECONDS = 5.0
"""Maximum seconds until the head of a request has arrived."""
SAID_SECONDS = 10.0
"""Seconds for which an agent's report on HAProxy is valid; the next agent checks for itself."""
ALONE_SECONDS = 60.0
"""Seconds for which a gateway without a working agent receives new requests; its gates do not change during
that time."""


class Health:
    """Health of the gateway, from the latest heartbeats of its agents."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._was_ready = False
        self._unready = "the agent has not started"
        self._unhealthy = ""
        self.draining = False
        """True if the pod terminates."""
        self.received = float("-inf")
        """Time of the latest heartbeat."""

    def beat(self, report: Mapping[str, Any]) -> None:
        """Process a heartbeat: why the agent is not ready, and which HAProxy is not healthy."""
        self.received = self._clock()
        self._unready, self._unhealthy = str(report["unready"]), str(report["unhealthy"])
        self._was_ready = self._was_ready or not self._unready

    @property
    def alone(self) -> bool:
        """True if no agent has worked for a long time."""
        return self._clock() - self.received > ALONE_SECONDS

    @property
    def unhealthy(self) -> str:
        """Reason for a restart of the container, or empty if none is needed."""
        return "" if self.draining or self._silent else self._unhealthy

    @property
    def unready(self) -> str:
        """Reason why requests should not be sent to this pod, or empty if they may.

        HAProxy continues without an agent, and with one that has not read the cluster yet.
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
        return self._clock() - self.received > SAID_SECONDS


class HealthServer:
    """Small HTTP server for two pages."""

    def __init__(self, health: Health, port: int) -> None:
        self._health = health
        self._port = port
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Start listening."""
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
