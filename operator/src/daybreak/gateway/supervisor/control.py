"""Socket of the supervisor: the agent starts and stops HAProxies over it, and sends heartbeats.

The agent is in another container, under another user of the same group.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from daybreak.gateway.haproxy.connections import close_connection
from daybreak.gateway.haproxy.processes import GatewayFailed, OwnProcess

SOCKET = "control.sock"
"""Name of the socket in the gateway's folder."""
LINE_LIMIT = 64 * 1024


def control_socket(folder: Path) -> Path:
    """Return the socket of a gateway's supervisor."""
    return folder / SOCKET


class Control:
    """Server of one request for each connection: a line of JSON, answered by another one.

    Args:
        folder: Folder of the gateway.
        on_beat: Callback with the agent's heartbeat, which returns the response.
    """

    def __init__(self, folder: Path, on_beat: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        self._folder = folder
        self._on_beat = on_beat
        self._server: asyncio.Server | None = None
        self._ended = asyncio.Event()
        self._given_up = ""
        self.left = asyncio.Event()
        """Set when an agent has reported its final end."""
        self.processes: dict[str, OwnProcess] = {}
        """HAProxies by name."""

    async def start(self) -> None:
        """Start listening."""
        self._folder.mkdir(mode=0o770, parents=True, exist_ok=True)
        socket = control_socket(self._folder)
        socket.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._answer, socket, limit=LINE_LIMIT)
        socket.chmod(0o660)

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def broken(self) -> str:
        """Wait until a HAProxy has ended unexpectedly, or the agent gives one up. Returns the reason."""
        while True:
            self._ended.clear()
            if self._given_up:
                return self._given_up
            for name, process in self.processes.items():
                status = process.status
                if status is not None and status.ended is not None and not status.stopping:
                    return f"HAProxy has ended: {name}: {status.words or 'it has said nothing'}"
            await self._ended.wait()

    async def all_ended(self) -> None:
        """Wait until no HAProxy runs."""
        while True:
            self._ended.clear()
            if all(each.status is None or each.status.ended is not None for each in self.processes.values()):
                return
            await self._ended.wait()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._do(json.loads(await reader.readuntil()))
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError, KeyError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the agent has ended, or the client was none
        finally:
            close_connection(writer)

    async def _do(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        match request["do"]:
            case "beat":
                return self._on_beat(request)
            case "give up":
                self._given_up = str(request["why"])
                self._ended.set()
                return {}
            case "leave":
                self.left.set()
                return {}
        process = self.processes.setdefault(request["name"], OwnProcess())
        try:
            match request["do"]:
                case "start":
                    await self._start(process, Path(request["file"]))
                case "wait":
                    await process.wait()
                case "signal":
                    await process.signal(int(request["number"]))
        except (GatewayFailed, OSError) as error:
            return {"error": str(error)}
        return asdict(status) if (status := process.status) is not None else {}

    async def _start(self, process: OwnProcess, file: Path) -> None:
        status = process.status
        if status is not None and status.ended is None:
            raise GatewayFailed("it runs already")
        await process.start(file)
        watch = asyncio.create_task(process.wait())
        watch.add_done_callback(lambda _: self._ended.set())
