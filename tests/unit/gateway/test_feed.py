"""The state that the gateway streams to its followers, with a stub HAProxy."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest

from daybreak.gateway.agent import feed as module
from daybreak.gateway.agent.feed import Feed
from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.table import Gate, SlotState, Snapshot
from daybreak.protocol.reports import Update
from daybreak.protocol.tallies import RouteTally, Tally
from tests.unit.clock import Clock


class PlayedGateway:
    """Stub gateway that answers `changes` from slots that the test sets."""

    def __init__(self) -> None:
        self.slots: dict[int, SlotState] = {}
        self.changed: dict[int, int] = {}
        self.sequence = 10
        self.requested: list[int] = []
        self.away = False

    def set(self, slot: int, name: str, **more: int) -> None:
        self.sequence += 1
        self.changed[slot] = self.sequence
        numbers: dict[str, Any] = {
            "epoch": 1,
            "arrivals": 0,
            "held": 0,
            "in_flight": 0,
            "idle_ms": 0,
            "servers_up": 1,
        } | more
        self.slots[slot] = SlotState(f"s{slot}", name, "", Gate.OPEN, ends={}, **numbers)

    async def changes(self, since: int) -> tuple[int, Snapshot]:
        self.requested.append(since)
        if self.away:
            raise RuntimeApiError("away")
        slots = {slot: state for slot, state in self.slots.items() if self.changed[slot] > since}
        return self.sequence, Snapshot("boot", {state.slot: state for state in slots.values()})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gateway() -> PlayedGateway:
    made = PlayedGateway()
    made.set(0, "a")
    made.set(1, "b")
    return made


@pytest.fixture
def feed(gateway: PlayedGateway, clock: Clock) -> Feed:
    return Feed(cast(Gateway, gateway), clock)


async def first(updates: AsyncIterator[Update]) -> Update:
    """Return the next line. Fails if none arrives in time."""
    async with asyncio.timeout(20):
        return await anext(updates)


async def test_follower_receives_all_gates_first_and_then_changes(feed: Feed, gateway: PlayedGateway) -> None:
    await feed.look()
    updates = feed.updates()
    reported = await first(updates)
    assert (reported.full, reported.boot, set(reported.services)) == (True, "boot", {"a", "b"})
    gateway.set(1, "b", held=3)
    await feed.look()
    reported = await first(updates)
    assert (reported.full, set(reported.services), reported.services["b"].held) == (False, {"b"}, 3)
    assert gateway.requested == [0, 12]


async def test_follower_receives_empty_update_without_changes(
    feed: Feed, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.01)
    await feed.look()
    updates = feed.updates()
    await first(updates)
    await feed.look()
    reported = await first(updates)
    assert not reported.full
    assert not reported.services


async def test_reported_idle_time_grows_between_polls(
    feed: Feed, gateway: PlayedGateway, clock: Clock
) -> None:
    gateway.set(0, "a", idle_ms=5000)
    await feed.look()
    clock.now += 0.5
    assert feed.update(-1).services["a"].idle_ms == 5500


async def test_later_request_end_is_reported_without_change_of_counts(
    feed: Feed, gateway: PlayedGateway, clock: Clock
) -> None:
    await feed.look()
    updates = feed.updates()
    await first(updates)
    clock.now += 3
    gateway.set(0, "a", idle_ms=2900)
    await feed.look()
    assert not feed.update(1).services
    clock.now += 0.5
    gateway.set(0, "a", idle_ms=0)
    await feed.look()
    assert (await first(updates)).services["a"].idle_ms == 0


async def test_growing_held_time_alone_causes_no_update(
    feed: Feed, gateway: PlayedGateway, clock: Clock
) -> None:
    gateway.set(0, "a", held=2, held_ms=3000, idle_ms=2000)
    await feed.look()
    updates = feed.updates()
    assert (await first(updates)).services["a"].held_ms == 3000
    clock.now += 1.5
    gateway.set(0, "a", held=2, held_ms=4500, idle_ms=3500)
    await feed.look()
    assert not feed.update(1).services, "nothing has happened"
    assert feed.update(-1).services["a"].held_ms == 4500
    assert feed.update(-1).services["b"].held_ms is None
    gateway.set(0, "a", held=1, held_ms=1000)
    await feed.look()
    assert (await first(updates)).services["a"].held_ms == 1000, "the oldest has left"


async def test_removed_service_causes_full_update_without_that_service(
    feed: Feed, gateway: PlayedGateway, clock: Clock
) -> None:
    await feed.look()
    updates = feed.updates()
    await first(updates)
    del gateway.slots[0]
    feed.poke(True)
    clock.now += 1
    await feed.look()
    reported = await first(updates)
    assert (reported.full, set(reported.services)) == (True, {"b"})


async def test_slow_follower_receives_only_latest_state(feed: Feed, gateway: PlayedGateway) -> None:
    await feed.look()
    updates = feed.updates()
    await first(updates)
    for held in (1, 2, 3):
        gateway.set(0, "a", held=held)
        await feed.look()
    assert (await first(updates)).services["a"].held == 3
    gateway.set(1, "b", held=1)
    await feed.look()
    assert (await first(updates)).services.keys() == {"b"}


async def test_follower_receives_no_update_while_counts_are_stale(
    feed: Feed, gateway: PlayedGateway, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.01)
    await feed.look()
    updates = feed.updates()
    await first(updates)
    gateway.away = True
    clock.now += 2
    with pytest.raises(RuntimeApiError):
        await feed.look()
    following = asyncio.ensure_future(anext(updates))
    await asyncio.sleep(0.2)
    assert not following.done()
    gateway.away = False
    await feed.look()
    async with asyncio.timeout(20):
        assert not (await following).services


def test_gate_name_consists_of_service_and_model() -> None:
    state = SlotState("m0", "a", "org/b", Gate.OPEN, 1, 0, 0, 0, 0, 1, {})
    assert (state.name, replace(state, model="").name) == ("a/org/b", "a")


async def test_route_tallies_are_sent_only_if_changed(
    feed: Feed, gateway: PlayedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.01)
    gateway.set(0, "chat")
    await feed.look()
    updates = feed.updates()
    assert (await first(updates)).routes is None, "not known yet: what was known before stays"
    reported = {"chat": RouteTally("t", {"one/a": Tally(sent=1)})}
    feed.notify(reported)
    assert (await first(updates)).routes == reported
    feed.notify(dict(reported))
    assert (await first(updates)).routes is None
    other = feed.updates()
    assert (await first(other)).routes == reported, "a later follower receives it at once"
