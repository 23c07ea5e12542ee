"""The gateway's time advances while HAProxy has no processor."""

import asyncio
import os
import signal

from daybreak.gateway.hold.table import Gate
from tests.gateway.conftest import Bench

RESOLUTION_MS = 10
"""Resolution of the system clock that HAProxy is compared with."""


async def stopped(bench: Bench, seconds: float) -> float:
    """Take the processor from HAProxy, and return for how many milliseconds it had none."""
    clock = asyncio.get_running_loop().time
    os.kill(bench.gateway.pid, signal.SIGSTOP)
    began = clock()
    try:
        await asyncio.sleep(seconds)
        return 1000 * (clock() - began)
    finally:
        os.kill(bench.gateway.pid, signal.SIGCONT)


async def test_idle_time_includes_time_without_a_processor(bench: Bench) -> None:
    await bench.wake()
    before = await bench.state()
    lost = 0.0
    for _ in range(3):
        lost += await stopped(bench, 0.5)
        await bench.state()
    state = await bench.state()
    assert state.idle_ms - before.idle_ms >= lost - 2 * RESOLUTION_MS


async def test_hold_time_includes_time_without_a_processor(bench: Bench) -> None:
    clock = asyncio.get_running_loop().time
    await bench.gate(Gate.CLOSED, hold_ms=4000)
    asking = asyncio.create_task(bench.ask("one"))
    await bench.until(lambda state: state.held == 1)
    held = clock()
    for _ in range(3):
        await stopped(bench, 1)
    state = await bench.state()
    assert state.held_ms >= 1000 * (clock() - held) - 1000
    status, _, answer = await asking
    assert (status, answer["error"]["code"]) == (503, "wake_timeout")
