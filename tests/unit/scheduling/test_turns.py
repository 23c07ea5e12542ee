"""Whose turn it is where accelerators are scarce."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.scheduling.nodes import NodeCapacity, capacity
from daybreak.scheduling.turns import PATIENCE, Claim, Turn, turns
from tests.unit.llmservice.decide.scenes import node

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
GPU = "nvidia.com/gpu"


def ago(seconds: float) -> datetime:
    """A time in the past."""
    return NOW - timedelta(seconds=seconds)


def waiter(owner: str, *, waited: float = 60, devices: int = 1, **more: Any) -> Claim:
    """A model whose pods find no room."""
    common: dict[str, Any] = {"since": ago(waited), "no_room_since": ago(waited), "asked": True, **more}
    return Claim(f"default/{owner}", "m", GPU, devices=devices, waits=True, **common)


def holder(owner: str, idle: float | None, **holds: int) -> Claim:
    """A model that is awake, and has been idle for so long; None: it is asked."""
    since = None if idle is None else ago(idle)
    return Claim(f"default/{owner}", "m", GPU, ago(3600), 1, holds=holds, yields_at=since)


def places(**gpus: int) -> list[NodeCapacity]:
    """Nodes by name, with so many GPUs each."""
    return [capacity(node(name, gpus=count)) for name, count in gpus.items()]


def decided(*claims: Claim, nodes: list[NodeCapacity] | None = None) -> dict[str, Turn]:
    """Turns by the workload's own name."""
    found = turns(claims, nodes if nodes is not None else places(a=1), NOW)
    return {owner.removeprefix("default/"): turn for (owner, _), turn in found.items()}


def gives_way(found: dict[str, Turn]) -> dict[str, str]:
    """Who is to sleep, and for whom."""
    return {owner: turn.gives_way_to for owner, turn in found.items() if turn.gives_way_to}


def test_nobody_is_concerned_where_there_is_room() -> None:
    starting = replace(waiter("starting"), no_room_since=None)
    assert decided(starting, holder("idle", 3600, a=1)) == {}


def test_the_scheduler_has_its_time_first() -> None:
    early = replace(waiter("early"), no_room_since=ago(2))
    found = decided(early, holder("idle", 3600, a=1))
    assert found["early"].look_again == PATIENCE - timedelta(seconds=2)
    assert gives_way(found) == {}


def test_the_idle_one_gives_way() -> None:
    assert gives_way(decided(waiter("w"), holder("idle", 10, a=1))) == {"idle": "default/w"}
    assert gives_way(decided(waiter("w"), holder("busy", None, a=1))) == {}


def test_who_may_not_yet_is_left() -> None:
    soon = replace(holder("soon", None, a=1), yields_at=NOW + timedelta(seconds=1))
    found = decided(waiter("w"), soon)
    assert gives_way(found) == {}
    assert found["w"].look_again is not None


def test_the_longest_idle_one_gives_way() -> None:
    found = decided(waiter("w"), holder("a", 10, n=1), holder("b", 90, n=1), holder("c", 30, o=1))
    assert gives_way(found) == {"b": "default/w"}


def test_room_must_be_on_one_node() -> None:
    two = waiter("w", devices=2)
    apart = [holder("a", 10, n=1), holder("b", 90, o=1)]
    assert gives_way(decided(two, *apart, nodes=places(n=1, o=1))) == {}
    together = [holder("c", 5, p=1), holder("d", 7, p=1)]
    found = decided(two, *apart, *together, nodes=places(n=1, o=1, p=2))
    assert gives_way(found) == {"c": "default/w", "d": "default/w"}


def test_what_is_free_counts() -> None:
    two = waiter("w", devices=2)
    assert gives_way(decided(two, holder("a", 10, n=1), nodes=places(n=2))) == {"a": "default/w"}
    assert gives_way(decided(two, holder("a", 10, n=1), nodes=places(n=1))) == {}


def test_fewer_are_put_to_sleep_rather_than_more() -> None:
    two = waiter("w", devices=2)
    small, large = [holder("a", 900, n=1), holder("b", 900, n=1)], holder("c", 10, o=2)
    assert gives_way(decided(two, *small, large, nodes=places(n=2, o=2))) == {"c": "default/w"}


def test_only_where_its_pods_may_stand() -> None:
    elsewhere = waiter("w", nodes=frozenset({"b"}))
    holders = [holder("x", 900, a=1), holder("y", 10, b=1)]
    assert gives_way(decided(elsewhere, *holders, nodes=places(a=1, b=1))) == {"y": "default/w"}


def test_nobody_else_is_asked_while_one_is_leaving() -> None:
    going = replace(holder("going", None, a=1), leaving=True)
    assert gives_way(decided(waiter("w"), going, holder("idle", 900, b=1), nodes=places(a=1, b=1))) == {}


def test_one_comes_first_and_the_others_give_back_what_they_hold() -> None:
    first = waiter("first", waited=90, holds={"a": 1})
    second = waiter("second", waited=60, holds={"b": 1})
    found = decided(second, first, holder("idle", 900, c=1), nodes=places(a=1, b=1, c=1))
    assert found["second"].after == ("default/first",)
    assert not found["first"].after
    # What the second gives back is enough.
    assert gives_way(found) == {}


def test_who_has_given_back_waits_on_until_it_is_its_turn() -> None:
    queued = replace(waiter("queued"), no_room_since=None, queued=True)
    assert decided(waiter("first", waited=90), queued)["queued"].after == ("default/first",)
    placed = replace(waiter("first", waited=90, holds={"a": 1}), no_room_since=None)
    assert decided(placed, queued) == {}


def test_who_comes_first() -> None:
    late, nobody = waiter("late", overdue=True, waited=900), waiter("nobody", asked=False, waited=800)
    young, old = waiter("young", waited=10), waiter("old", waited=700)
    found = decided(late, nobody, young, old)
    assert [owner for owner in ("old", "young", "nobody", "late") if not found[owner].after] == ["old"]
    assert found["late"].after == ("default/old", "default/young", "default/nobody")


def test_each_kind_of_accelerator_is_apart() -> None:
    other = replace(waiter("other", waited=900), resource="amd.com/gpu")
    assert not decided(waiter("w"), other)["w"].after


@dataclass
class Played:
    """A service in a played cluster: `pods` pods of `devices` GPUs each, asked once, idle when answered."""

    name: str
    devices: int
    pods: int
    asked_at: int
    placed: list[str] = field(default_factory=list)
    no_room_since: datetime | None = None
    queued: bool = False
    answered_at: int | None = None
    leaving: bool = False


@settings(max_examples=300, deadline=None)
@given(
    nodes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    services=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 5)), min_size=1, max_size=6
    ),
    order=st.randoms(use_true_random=False),
)
def test_everybody_who_fits_alone_is_answered_in_the_end(
    nodes: list[int], services: list[tuple[int, int, int]], order: Any
) -> None:
    """The scheduler takes pods in any order. Nobody leaves but by turns."""
    size = {f"n{number}": gpus for number, gpus in enumerate(nodes)}
    some = [
        Played(f"s{number}", devices, pods, asked)
        for number, (devices, pods, asked) in enumerate(services)
        if sum(gpus // devices for gpus in size.values()) >= pods
    ]
    for second in range(0, 60 * (len(some) + 1), 5):
        now = NOW + timedelta(seconds=second)
        _schedule(some, size, order, now, second)
        found = turns([_claim(each, now) for each in some if second >= each.asked_at], places(**size), now)
        for each in some:
            turn = found.get((each.name, "m"), Turn())
            each.queued = bool(turn.after)
            if each.leaving or turn.after:
                each.placed, each.no_room_since, each.leaving = [], None, False
            elif turn.gives_way_to:
                each.leaving = True
    assert all(each.answered_at is not None for each in some)


def _schedule(some: list[Played], size: dict[str, int], order: Any, now: datetime, second: int) -> None:
    used = Counter[str]()
    for each in some:
        used.update({name: each.devices * each.placed.count(name) for name in set(each.placed)})
    pending = [
        each
        for each in some
        if second >= each.asked_at and each.answered_at is None and not each.queued
        for _ in range(each.pods - len(each.placed))
    ]
    order.shuffle(pending)
    for each in pending:
        free = [name for name in size if size[name] - used[name] >= each.devices]
        if free:
            name = order.choice(free)
            used[name] += each.devices
            each.placed.append(name)
        elif each.no_room_since is None:
            each.no_room_since = now
    for each in some:
        if len(each.placed) == each.pods and each.answered_at is None:
            each.answered_at, each.no_room_since = second, None


def _claim(each: Played, now: datetime) -> Claim:
    up = each.answered_at is not None
    asked = NOW + timedelta(seconds=each.asked_at)
    holds = {name: each.devices * each.placed.count(name) for name in set(each.placed)}
    return Claim(
        owner=each.name,
        model="m",
        resource=GPU,
        since=asked,
        devices=each.devices,
        holds=holds,
        waits=not up,
        no_room_since=each.no_room_since,
        queued=each.queued,
        asked=not up,
        leaving=each.leaving,
        yields_at=now if up and not each.leaving else None,
    )
