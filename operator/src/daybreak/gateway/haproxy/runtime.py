"""Client of HAProxy's admin socket (its Runtime API)."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from daybreak.gateway.haproxy.connections import close_connection

_PROMPT = b"\n> "
_LIMIT = 16 * 2**20
"""Maximum bytes of a response; a snapshot of 1,024 services is about 300 KB."""


class RuntimeApiError(Exception):
    """HAProxy rejected a command, or cannot be reached."""


class RuntimeApi:
    """Persistent connection to the admin socket.

    HAProxy closes the socket itself when it stops softly, while the connection stays open. The connection is
    then the only way to release held requests.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    async def connect(self) -> None:
        """Connect if there is no connection. Raises RuntimeApiError if HAProxy does not listen."""
        self._closed = False
        async with self._turn:
            await self._connected()

    async def command(self, text: str) -> str:
        """Send one command and return HAProxy's response, stripped. Raises RuntimeApiError."""
        return (await self.commands(text))[0]

    async def commands(self, *texts: str) -> list[str]:
        """Send commands that HAProxy runs without interruption, and return its response to each."""
        line = "; ".join(texts)
        async with self._turn:
            reader, writer = await self._connected()
            try:
                writer.write(line.encode() + b"\n")
                answers = [await reader.readuntil(_PROMPT) for _ in texts]
            except (OSError, asyncio.IncompleteReadError) as error:
                self._drop()
                raise RuntimeApiError(f"HAProxy's admin socket was closed during: {_named(line)}") from error
            except BaseException:
                # Canceled between command and response: the next command must not read this response.
                self._drop()
                raise
            return [answer[: -len(_PROMPT)].decode(errors="replace").strip() for answer in answers]

    async def expect(self, text: str, *good: str) -> None:
        """Send a command whose response must begin with one of `good`, or be empty if `good` is empty."""
        answer = await self.command(text)
        if not (answer.startswith(good) if good else not answer):
            raise RuntimeApiError(f"{_named(text)}: {answer}")

    async def expect_all(self, *texts: str) -> None:
        """Send commands that HAProxy runs without interruption; each response must be empty."""
        for text, answer in zip(texts, await self.commands(*texts), strict=True):
            if answer:
                raise RuntimeApiError(f"{_named(text)}: {answer}")

    async def json(self, text: str) -> Mapping[str, Any]:
        """Send a command whose response is one JSON object."""
        answer = await self.command(text)
        try:
            found: Mapping[str, Any] = json.loads(answer)
        except ValueError as error:
            raise RuntimeApiError(f"{_named(text)}: {answer[:200]}") from error
        return found

    def close(self) -> None:
        """Close the connection until the next `connect`: a stopping HAProxy waits for each connection."""
        self._closed = True
        self._drop()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            self._refuse_closed()
            try:
                reader, writer = await asyncio.open_unix_connection(self._socket, limit=_LIMIT)
            except OSError as error:
                raise RuntimeApiError(f"HAProxy's admin socket: {error}") from error
            self._streams = reader, writer
            self._refuse_closed()
            try:
                writer.write(b"prompt\n")
                await reader.readuntil(_PROMPT)
            except (OSError, asyncio.IncompleteReadError) as error:
                self._drop()
                raise RuntimeApiError("HAProxy's admin socket was closed at once") from error
            except BaseException:
                self._drop()
                raise
        return self._streams

    def _refuse_closed(self) -> None:
        if self._closed:
            self._drop()
            raise RuntimeApiError("the connection to HAProxy's admin socket has been closed")

    def _drop(self) -> None:
        if self._streams is not None:
            close_connection(self._streams[1])
            self._streams = None


def _named(command: str) -> str:
    """Return a command as it may appear in a logged error, because values may be digests of keys."""
    return " ".join(word for word in command.split()[:3] if "=" not in word)
