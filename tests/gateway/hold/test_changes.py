"""Changes since the last poll: none is missed, and idle services cost nothing."""

import asyncio
from dataclasses import replace
from pathlib import Path

from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Gate, Slot
from tests.gateway.conftest import Bench
from tests.gateway.ports import free_ports


async def test_poll_reports_only_changed_slots(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    await bench.gateway.set_gate("s1", Slot(service="other", gate=Gate.CLOSED, epoch=1))
    since, all_of_it = await bench.gateway.changes(0)
    assert set(all_of_it.slots) == {"s0", "s1"}
    since, quiet = await bench.gateway.changes(since)
    assert not quiet.slots
    assert quiet.boot == all_of_it.boot
    await bench.gateway.set_gate("s1", Slot(service="other", gate=Gate.FAILED, epoch=2))
    since, reported = await bench.gateway.changes(since)
    assert [(state.slot, state.epoch) for state in reported.slots.values()] == [("s1", 2)]
    asking = asyncio.create_task(bench.ask("one"))
    await bench.until(lambda state: state.held == 1)
    since, reported = await bench.gateway.changes(since)
    assert [(state.slot, state.arrivals, state.held) for state in reported.slots.values()] == [("s0", 1, 1)]
    for _ in range(3):
        since, quiet = await bench.gateway.changes(since)
        assert not quiet.slots, "who is held waits, and nothing else happens"
    await bench.wake()
    await asking
    assert (await bench.gateway.changes(since))[1].slots["s0"].ends == {"passed": 1}


async def test_poll_reports_change_of_ray_cluster(bench: Bench) -> None:
    await bench.wake()
    since, _ = await bench.gateway.changes(0)
    since, quiet = await bench.gateway.changes(since)
    assert not quiet.slots
    await bench.gateway.set_servers("s0", [replace(bench.serve.address, cluster="next")])
    since, reported = await bench.gateway.changes(since)
    assert [(state.slot, state.clusters) for state in reported.slots.values()] == [("s0", ("next",))]
    assert not (await bench.gateway.changes(since))[1].slots
    await bench.gateway.set_servers("s0", [])
    _, reported = await bench.gateway.changes(since)
    assert reported.slots["s0"].clusters == ()


async def test_end_of_request_is_reported_to_every_poller(bench: Bench) -> None:
    await bench.wake()
    bench.serve.hold_answers = True
    asking = asyncio.create_task(bench.ask("one"))
    await bench.until(lambda state: state.in_flight == 1)
    since, reported = await bench.gateway.changes(0)
    for _ in range(3):  # nothing happens, and yet it is reported: the end may come at any time
        since, reported = await bench.gateway.changes(since)
        assert reported.slots["s0"].in_flight == 1
    bench.serve.finish.set()
    await asking
    # Another follower observes the end first: this one must receive it too.
    await bench.until(lambda state: state.in_flight == 0)
    await bench.state()
    since, reported = await bench.gateway.changes(since)
    assert reported.slots["s0"].in_flight == 0
    assert not (await bench.gateway.changes(since))[1].slots


async def test_end_of_last_stream_is_reported_while_request_is_held(bench: Bench) -> None:
    await bench.wake()
    bench.serve.hold_answers = True
    streams = asyncio.create_task(bench.ask("streams"))
    await bench.until(lambda state: state.in_flight == 1)
    await bench.gate(Gate.CLOSED)
    waits = asyncio.create_task(bench.ask("waits"))
    await bench.until(lambda state: state.held == 1)
    since, reported = await bench.gateway.changes(0)
    assert (reported.slots["s0"].in_flight, reported.slots["s0"].held) == (1, 1)
    bench.serve.finish.set()
    await streams
    await bench.until(lambda state: state.in_flight == 0)
    since, reported = await bench.gateway.changes(since)
    assert (reported.slots["s0"].in_flight, reported.slots["s0"].held) == (0, 1)
    assert not (await bench.gateway.changes(since))[1].slots
    await bench.wake()
    await waits


async def test_added_and_removed_servers_are_reported(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    since, _ = await bench.gateway.changes(0)
    for addresses, up in (([bench.serve.address], 1), ([], 0)):
        await bench.gateway.set_servers("s0", addresses)
        async with asyncio.timeout(120):
            while True:
                since, reported = await bench.gateway.changes(since)
                if reported.slots and reported.slots["s0"].servers_up == up:
                    break
                await asyncio.sleep(0.02)


async def test_poll_with_number_from_before_restart_reports_all_slots(bench: Bench) -> None:
    await bench.gate(Gate.CLOSED)
    since, before = await bench.gateway.changes(0)
    await bench.gateway.kill()
    await bench.gateway.start()
    await bench.gate(Gate.CLOSED)
    _, after = await bench.gateway.changes(since)
    assert set(after.slots) == {"s0"}
    assert after.boot != before.boot


async def test_idle_services_are_reported_only_once(tmp_path: Path) -> None:
    first = free_ports(1000)
    gateway = Gateway(
        GatewayConfig(folder=tmp_path / "gw", address="127.0.0.1", first_port=first, slots=1000)
    )
    await gateway.start()
    try:
        for slot in range(1000):
            await gateway.set_gate(f"s{slot}", Slot(service=f"s{slot}", gate=Gate.CLOSED, epoch=1))
        await gateway.set_servers("s5", [Server("127.0.0.1", 1)])
        since, reported = await gateway.changes(0)
        assert len(reported.slots) == 1000
        for _ in range(20):
            since, reported = await gateway.changes(since)
            assert not reported.slots
    finally:
        await gateway.kill()
