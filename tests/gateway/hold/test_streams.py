"""Streams pass unbuffered and are waited for; a stop cuts no client off."""

import asyncio
import signal
import socket

import psutil
import pytest

from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import BODY, Bench


async def test_a_stream_passes_event_by_event_and_counts_as_in_flight(bench: Bench) -> None:
    await bench.wake()
    async with bench.clients.post(bench.url + "/v1/completions", data=b"{}") as answer:
        # The fake delays the end until the test releases it: the data received by now was not buffered.
        assert await answer.content.readuntil(b"\n\n") == b"data: first\n\n"
        await bench.gate(Gate.CLOSED)
        assert (await bench.state()).in_flight == 1
        bench.serve.finish.set()
        assert await answer.content.read() == b"data: [DONE]\n\n"
    await bench.until(lambda state: state.in_flight == 0)


async def test_removing_a_server_cuts_no_stream(bench: Bench) -> None:
    await bench.wake()
    async with bench.clients.post(bench.url + "/v1/completions", data=b"{}") as answer:
        await answer.content.readuntil(b"\n\n")
        await bench.gateway.set_servers("s0", [])
        assert await bench.gateway.remove_left_servers("s0")
        bench.serve.finish.set()
        assert await answer.content.read() == b"data: [DONE]\n\n"
    async with asyncio.timeout(120):
        while await bench.gateway.remove_left_servers("s0"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await bench.wake()
    assert (await bench.ask("after"))[0] == 200


async def test_a_soft_stop_lets_held_and_streaming_requests_finish(bench: Bench) -> None:
    await bench.wake()
    async with bench.clients.post(bench.url + "/v1/completions", data=b"{}") as streaming:
        await streaming.content.readuntil(b"\n\n")
        await bench.gate(Gate.CLOSED)
        held = asyncio.create_task(bench.ask("held"))
        await bench.until(lambda state: state.held == 1)
        stopping = asyncio.create_task(bench.gateway.stop(120))
        refused = False
        while not refused:
            try:
                _, writer = await bench.connect()
                writer.close()
            except ConnectionRefusedError:
                refused = True
            except ConnectionResetError:  # it came while the port was being closed
                continue
        # The gate can still be moved, over the connection that was there before.
        await bench.gate(Gate.OPEN)
        assert (await held)[0] == 200
        bench.serve.finish.set()
        assert await streaming.content.read() == b"data: [DONE]\n\n"
    # HAProxy waits for clients that keep their connection, so that no next request of theirs is lost.
    await bench.clients.close()
    assert await stopping
    assert await bench.gateway.wait() == 0


async def test_haproxy_starts_with_new_boot_id_after_sigkill(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    before = (await bench.gateway.snapshot()).boot
    held = asyncio.create_task(bench.ask("held"))
    await bench.until(lambda state: state.held == 1)
    await bench.gateway.kill()
    assert await bench.gateway.wait() == -signal.SIGKILL
    assert isinstance((await asyncio.gather(held, return_exceptions=True))[0], Exception)
    await bench.gateway.start()
    assert (await bench.gateway.snapshot()).boot != before
    await bench.wake()
    assert (await bench.ask("after"))[0] == 200
    assert "held" not in bench.serve.observed


async def test_sigkill_of_haproxy_ends_requests_and_clients_can_retry(bench: Bench) -> None:
    await bench.wake()
    streams = [await bench.clients.post(bench.url + "/v1/completions", data=b"{}") for _ in range(3)]
    for stream in streams:
        await stream.content.readuntil(b"\n\n")
    await bench.gate(Gate.CLOSED)
    names = [f"held{number}" for number in range(5)]
    held = [asyncio.create_task(bench.ask(name)) for name in names]
    await bench.until(lambda state: state.held == 5)
    await bench.gateway.kill()
    ends = [*held, *(asyncio.create_task(stream.read()) for stream in streams)]
    async with asyncio.timeout(60):
        assert all(isinstance(end, Exception) for end in await asyncio.gather(*ends, return_exceptions=True))
    assert not set(names) & set(bench.serve.observed)
    await bench.gateway.start()
    await bench.wake()
    assert {answer[0] for answer in await asyncio.gather(*map(bench.ask, names))} == {200}
    assert all(bench.serve.observed[name] == 1 for name in names)


async def test_slow_reader_uses_little_memory_and_blocks_no_other_client(bench: Bench) -> None:
    await bench.wake()
    size = bench.serve.answer_bytes = 32 * 2**20
    process = psutil.Process(bench.gateway.pid)
    before = process.memory_info().rss
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", bench.gateway.config.first_port))
    slow.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=slow, limit=4096)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: slow\r\nConnection: close\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )
    await bench.until(lambda state: state.in_flight == 1)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    bench.serve.answer_bytes = 0
    for number in range(20):
        assert (await bench.ask(f"r{number}"))[0] == 200
    await bench.until(lambda state: state.in_flight == 1)
    assert process.memory_info().rss - before < 8 * 2**20
    read = 0
    while piece := await reader.read(2**16):
        read += len(piece)
    assert read == size
    writer.close()
    await bench.until(lambda state: state.in_flight == 0)


@pytest.mark.parametrize("head_timeout", [1])
async def test_silent_stream_outlives_short_timeouts(bench: Bench) -> None:
    await bench.wake()
    async with bench.clients.post(bench.url + "/v1/completions", data=b"{}") as answer:
        await answer.content.readuntil(b"\n\n")
        # Longer than a request's head may take (1 s here), a connection to a server (3 s) and a check (2 s).
        await asyncio.sleep(4)
        assert (await bench.state()).in_flight == 1
        bench.serve.finish.set()
        assert await answer.content.read() == b"data: [DONE]\n\n"


@pytest.mark.parametrize("head_timeout", [1])
@pytest.mark.parametrize(("stream_timeout", "keep_alive_timeout"), [(1, 300), (3600, 1)])
async def test_active_stream_outlives_all_timeouts(bench: Bench) -> None:
    await bench.wake()
    # One that is not the first of its connection: the time between two requests has begun to run before it.
    async with bench.clients.post(bench.url + "/v1/chat/completions", data=BODY) as first:
        assert first.status == 200
        await first.read()
    bench.serve.events = 17
    bench.serve.finish.set()
    begun = asyncio.get_running_loop().time()
    async with bench.clients.post(bench.url + "/v1/completions", data=BODY) as answer:
        events = (await answer.content.read()).split(b"\n\n")
    assert asyncio.get_running_loop().time() - begun > 5
    assert events == [b"data: first", *[b"data: more"] * 17, b"data: [DONE]", b""]


@pytest.mark.parametrize("keep_alive_timeout", [1])
async def test_silent_stream_is_not_ended_as_idle_connection(bench: Bench) -> None:
    await bench.wake()
    async with bench.clients.post(bench.url + "/v1/completions", data=BODY) as answer:
        await answer.content.readuntil(b"\n\n")
        await asyncio.sleep(3)
        assert (await bench.state()).in_flight == 1
        bench.serve.finish.set()
        assert await answer.content.read() == b"data: [DONE]\n\n"
    # The same timer ends a connection without requests.
    reader, writer = await bench.connect()
    writer.write(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(60):
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
    writer.close()
