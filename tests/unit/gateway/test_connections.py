"""Connections that the other end closed before a write: their error is handled in any order of collection."""

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from daybreak.gateway.haproxy.connections import close_connection
from daybreak.gateway.haproxy.processes import GatewayFailed, ask
from daybreak.gateway.haproxy.runtime import RuntimeApi, RuntimeApiError
from daybreak.gateway.supervisor.control import Control, control_socket


@pytest.fixture
async def reported(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield asyncio's reports about errors that no code handled.

    asyncio handles the error of a connection in the finalizer of `StreamReaderProtocol`. In a cycle the
    collector may finalize the future first, and then asyncio logs the error. This test removes the finalizer,
    which gives the same order every time.
    """
    monkeypatch.delattr(asyncio.StreamReaderProtocol, "__del__")
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
    yield reports
    for _ in range(5):
        await asyncio.sleep(0)
    gc.collect()
    assert reports == []


async def _leave_unread(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the first line, and close the connection."""
    await reader.readline()
    writer.write(b"ok\n\n> ")
    await writer.drain()
    writer.transport.abort()


@pytest.mark.usefixtures("reported")
async def test_close_connection_handles_error_of_failed_write() -> None:
    ours, theirs = socket.socketpair()
    _, writer = await asyncio.open_unix_connection(sock=ours)
    theirs.close()
    writer.write(b"unread")
    close_connection(writer)
    del writer


@pytest.mark.usefixtures("reported")
async def test_runtime_api_handles_error_when_haproxy_closes_connection(tmp_path: Path) -> None:
    server = await asyncio.start_unix_server(_leave_unread, tmp_path / "sock")
    async with server:
        api = RuntimeApi(tmp_path / "sock")
        await api.connect()
        with pytest.raises(RuntimeApiError, match="was closed during"):
            await api.command("show info")


@pytest.mark.usefixtures("reported")
async def test_control_handles_error_when_agent_disconnects_before_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering, left = asyncio.Event(), asyncio.Event()
    control = Control(tmp_path, lambda _: {})

    async def answer_late(_: object) -> dict[str, Any]:
        answering.set()
        await left.wait()
        return {}

    monkeypatch.setattr(control, "_do", answer_late)
    await control.start()
    agent = socket.socket(socket.AF_UNIX)
    agent.connect(str(control_socket(tmp_path)))
    agent.sendall(json.dumps({"do": "wait", "name": "hold"}).encode() + b"\n")
    await answering.wait()
    agent.close()
    left.set()
    await asyncio.sleep(0.05)
    control.stop()


@pytest.mark.usefixtures("reported")
async def test_ask_handles_error_when_supervisor_closes_connection(tmp_path: Path) -> None:
    async def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_unix_server(leave, tmp_path / "sock")
    async with server:
        with pytest.raises(GatewayFailed, match="does not answer"):
            await ask(tmp_path / "sock", {"do": "beat"})
