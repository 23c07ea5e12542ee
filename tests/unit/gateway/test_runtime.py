"""The connection to HAProxy's admin socket, with a stub socket: closed connections stay closed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daybreak.gateway.haproxy.runtime import RuntimeApi, RuntimeApiError


class PlayedSocket:
    """Stub socket that answers each line with `ok` and counts connected clients."""

    def __init__(self) -> None:
        self.connected = 0
        self.ever = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client until it disconnects."""
        self.connected += 1
        self.ever += 1
        try:
            while await reader.readline():
                writer.write(b"ok\n\n> ")
        finally:
            self.connected -= 1
            writer.close()

    async def empty(self) -> None:
        """Wait until no client is connected."""
        async with asyncio.timeout(10):
            while self.connected:  # noqa: ASYNC110 -- a count has no event
                await asyncio.sleep(0.01)


@pytest.fixture
async def played(tmp_path: Path) -> AsyncIterator[PlayedSocket]:
    """Yield a stub socket at `tmp_path`/sock."""
    socket = PlayedSocket()
    server = await asyncio.start_unix_server(socket.serve, tmp_path / "sock")
    async with server:
        yield socket


async def test_command_after_close_opens_no_connection(played: PlayedSocket, tmp_path: Path) -> None:
    api = RuntimeApi(tmp_path / "sock")
    assert await api.command("show") == "ok"
    api.close()
    with pytest.raises(RuntimeApiError, match="has been closed"):
        await api.command("show")
    await played.empty()
    assert played.ever == 1
    await api.connect()
    assert await api.command("show") == "ok"
    api.close()
    await played.empty()


@pytest.mark.parametrize("steps", range(6))
async def test_close_during_connect_fails_the_command(
    played: PlayedSocket, tmp_path: Path, steps: int
) -> None:
    api = RuntimeApi(tmp_path / "sock")
    asking = asyncio.create_task(api.command("show"))
    for _ in range(steps):
        await asyncio.sleep(0)
    api.close()
    with pytest.raises(RuntimeApiError):
        await asking
    await played.empty()
