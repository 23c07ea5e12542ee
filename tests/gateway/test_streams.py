"""Streams pass unbuffered and are waited for; a stop cuts nobody."""

import asyncio
import signal

from daybreak.gateway.table import Gate
from tests.gateway.conftest import Bench


async def test_a_stream_passes_event_by_event_and_counts_as_in_flight(bench: Bench) -> None:
    await bench.wake()
    async with bench.clients.post(bench.url + "/v1/completions", data=b"{}") as answer:
        # The fake waits with the end until it is told: what is here now was not buffered.
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
        await bench.gateway.set_servers(0, [])
        assert await bench.gateway.remove_left_servers(0)
        bench.serve.finish.set()
        assert await answer.content.read() == b"data: [DONE]\n\n"
    async with asyncio.timeout(120):
        while await bench.gateway.remove_left_servers(0):  # noqa: ASYNC110
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


async def test_after_sigkill_it_starts_anew_with_other_counts(bench: Bench) -> None:
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
    assert "held" not in bench.serve.seen
