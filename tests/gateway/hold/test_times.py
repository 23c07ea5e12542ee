"""Measurements of the gateway: hold times, needless hold times, and the number of gate openings."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from daybreak.gateway.agent.metrics import ServiceMetrics
from daybreak.gateway.hold.table import ADDED_BUCKETS, HOLD_BUCKETS, Gate, SlotState
from tests.gateway.conftest import Bench


def series(state: SlotState) -> dict[tuple[str, str], float]:
    """Return the series of that state: by name and bucket."""
    metrics = ServiceMetrics(cast("Any", SimpleNamespace(states={state.name: state})))
    return {
        (sample.name.removeprefix("daybreak_gateway_"), sample.labels.get("le", "")): sample.value
        for metric in metrics.collect()
        for sample in metric.samples
    }


async def test_hold_and_release_times_are_reported_for_all_requests(bench: Bench) -> None:
    await bench.wake()
    await bench.gate(Gate.CLOSED)
    asking = [asyncio.create_task(bench.ask(f"held-{number}")) for number in range(3)]
    await bench.until(lambda state: state.held == 3)
    # Longer than the bounds below: HAProxy's clock leaves out moments in which it did not run.
    await asyncio.sleep(3)
    await bench.gate(Gate.OPEN)
    assert [status for status, _, _ in await asyncio.gather(*asking)] == [200] * 3
    assert (await bench.ask("not held"))[0] == 200
    await bench.gate(Gate.CLOSED, hold_ms=50)
    assert (await bench.ask("late"))[0] == 503

    state = await bench.state()
    assert state.wakes == 1
    assert len(state.holds.counts) == len(HOLD_BUCKETS) + 1
    assert len(state.added.counts) == len(ADDED_BUCKETS) + 1
    assert (sum(state.holds.counts), sum(state.added.counts)) == (4, 3)
    assert state.holds.sum_ms >= 3 * 600
    assert state.added.sum_ms < state.holds.sum_ms - 3 * 590
    found = series(state)
    assert found["wakes_total", ""] == 1
    assert found["hold_seconds_count", ""] == found["hold_seconds_bucket", "+Inf"] == 4
    assert found["hold_seconds_bucket", "0.5"] == 1
    # The one that was not held is among them, with no time.
    assert found["release_delay_seconds_count", ""] == 4
    assert found["release_delay_seconds_bucket", "0.005"] >= 1
    assert found["release_delay_seconds_sum", ""] == state.added.sum_ms / 1000
    # HAProxy measures milliseconds; a connection on the loopback takes less.
    assert found["connect_seconds", ""] == state.connect_ms / 1000
    assert series(replace(state, connect_ms=7))["connect_seconds", ""] == 0.007


async def test_late_server_does_not_count_as_release_delay(bench: Bench) -> None:
    await bench.gate(Gate.OPEN)
    asking = asyncio.create_task(bench.ask("held"))
    await bench.until(lambda state: state.held == 1)
    await asyncio.sleep(4)
    await bench.gateway.set_servers("s0", [bench.serve.address])
    assert (await asking)[0] == 200
    state = await bench.state()
    assert state.holds.sum_ms >= 1000
    assert state.added.sum_ms < state.holds.sum_ms - 900
    assert state.wakes == 0


async def test_hold_metrics_are_zero_without_requests(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    found = series(await bench.state())
    assert {found[name, "+Inf"] for name in ("hold_seconds_bucket", "release_delay_seconds_bucket")} == {0}
