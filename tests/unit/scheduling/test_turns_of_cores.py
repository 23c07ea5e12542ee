"""Queue order of models without accelerators, if CPUs or memory are scarce."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.scheduling.claim import Amounts, Claim, Turn
from daybreak.scheduling.fleet import Fleet
from daybreak.scheduling.nodes import NodeCapacity
from daybreak.scheduling.pod_priority import PriorityClass
from daybreak.scheduling.replica_size import CORES
from daybreak.scheduling.room import Booked
from daybreak.scheduling.turns import turns
from tests.budget import examples
from tests.unit.scheduling.claims import NOW, ago, gives_way, holder, lost, waiter


def some(cores: float, gib: float = 1) -> dict[str, Decimal]:
    """Return the given number of CPUs, and the given memory."""
    return {"cpu": Decimal(str(cores)), "memory": Decimal(str(gib))}


def wants(owner: str, cores: float, gib: float = 1, *, waited: float = 60, **more: Any) -> Claim:
    """Return the claim of a model whose pods cannot be scheduled."""
    claim = replace(waiter(owner, waited=waited, devices=0), resource=CORES, needs=some(cores, gib))
    return replace(claim, **{"nodes": frozenset("abc"), **more})


def stands(owner: str, idle: float | None, **gives: Amounts) -> Claim:
    """Return the claim of an awake model, idle for `idle` seconds; None: it is busy."""
    holds = dict.fromkeys(gives, 1)
    return replace(holder(owner, idle, **holds), resource=CORES, devices=0, gives=gives)


def decided(
    *claims: Claim, taken: Booked | None = None, counted: Collection[str] | None = "abc", **nodes: Amounts
) -> dict[str, Turn]:
    """Return the turns by workload name; pods outside the claims may have taken some CPUs."""
    total: dict[str, dict[str, Decimal]] = {node: dict(amounts) for node, amounts in (taken or {}).items()}
    for claim in claims:
        for node, amounts in claim.gives.items():
            own = total.setdefault(node, {})
            for name, amount in amounts.items():
                own[name] = own.get(name, Decimal(0)) + amount
    known = None if counted is None else frozenset(counted)
    found = turns(claims, Fleet(offers(nodes), {}, total, known), NOW)
    return {owner.removeprefix("default/"): turn for (owner, _), turn in found.items()}


def offers(nodes: Mapping[str, Amounts]) -> list[NodeCapacity]:
    """Return nodes with this capacity."""
    return [NodeCapacity(name, {}, (), dict(amounts), False) for name, amounts in nodes.items()]


def test_idle_model_yields_if_yield_frees_enough_cores() -> None:
    idle, requested = stands("idle", 60, a=some(3)), stands("asked", None, b=some(3))
    found = decided(wants("w", 3), idle, requested, a=some(4, 8), b=some(4, 8))
    assert gives_way(found) == {"idle": "default/w"}
    assert found["w"].held_by == ("default/asked", "default/idle")
    assert found["w"].cores, "it is told in these words"
    assert not found["idle"].waited_for, "it holds no accelerators"


def test_model_yields_only_if_yield_frees_missing_capacity() -> None:
    idle = stands("idle", 60, a=some(2))
    assert gives_way(decided(wants("w", 6), idle, a=some(4, 8))) == {}, "not enough cores"
    assert gives_way(decided(wants("w", 2, 9), idle, a=some(4, 8))) == {}, "nor memory"
    others = {"a": some(2)}
    assert gives_way(decided(wants("w", 3), idle, taken=others, a=some(4, 8))) == {}, "pods of others"
    assert gives_way(decided(wants("w", 2), idle, taken=others, a=some(4, 8))) == {"idle": "default/w"}
    apart = stands("apart", 60, b=some(2))
    assert gives_way(decided(wants("w", 4), idle, apart, a=some(3, 8), b=some(3, 8))) == {}
    elsewhere = wants("w", 2, nodes=frozenset("b"))
    assert gives_way(decided(elsewhere, idle, a=some(2, 8), b=some(2, 8))) == {}
    # Capacity is free, so the model waits for something else.
    assert gives_way(decided(wants("w", 2), idle, a=some(9, 9))) == {}


def test_unknown_node_usage_is_not_counted_as_free() -> None:
    small, large = stands("small", 60, a=some(1)), stands("large", 5, b=some(3))
    nodes: dict[str, Any] = {"a": some(4, 8), "b": some(9, 9)}
    assert gives_way(decided(wants("w", 3), small, large, counted=None, **nodes)) == {}, "it is being asked"
    found = decided(wants("w", 3), small, large, counted=(), **nodes)
    assert gives_way(found) == {"large": "default/w"}, "what it gives back is enough by itself"
    nowhere = wants("w", 3, nodes=None)
    assert gives_way(decided(nowhere, small, large, **nodes)) == {}


def test_idle_model_stays_if_later_model_releases_enough_cores() -> None:
    half = wants("half", 3, waited=30, gives={"a": some(3)}, holds={"a": 1})
    idle = stands("idle", 60, b=some(3))
    found = decided(wants("first", 3), half, idle, a=some(4, 8), b=some(4, 8))
    assert found["half"].after == ("default/first",)
    assert gives_way(found) == {}
    found = decided(wants("first", 4), half, idle, a=some(3, 8), b=some(4, 8))
    assert gives_way(found) == {"idle": "default/first"}


def test_fewest_models_yield_and_batches_yield_first() -> None:
    one, two, large = (
        stands(name, idle, a=some(cores))
        for name, idle, cores in (("one", 90, 1), ("two", 80, 1), ("large", 9, 3))
    )
    nodes: dict[str, Any] = {"a": some(5, 9)}
    assert gives_way(decided(wants("w", 3), one, two, large, **nodes)) == {"large": "default/w"}
    night = replace(stands("night", 10, a=some(3)), background=True)
    found = decided(wants("w", 3), large, night, a=some(6, 9))
    assert gives_way(found) == {"night": "default/w"}


def test_accelerator_queue_and_core_queue_are_separate() -> None:
    gpu = waiter("gpu", waited=900)
    idle = holder("idle", 60, a=1)
    found = decided(gpu, wants("w", 3), idle, stands("cores", 60, a=some(3)), a=some(3, 8))
    assert not found["w"].after
    assert gives_way(found) == {"idle": "default/gpu", "cores": "default/w"}


def test_awake_model_that_lost_a_pod_is_first() -> None:
    awake = replace(lost("awake"), resource=CORES, needs=some(3), nodes=frozenset("a"), devices=0)
    half = wants("half", 3, waited=900, gives={"a": some(3)}, holds={"a": 1})
    found = decided(awake, half, a=some(4, 8))
    assert found["half"].after == ("default/awake",)
    assert not found["awake"].after


def test_busy_model_without_accelerators_yields_to_preempting_pod() -> None:
    busy = replace(stands("busy", None, a=some(3)), busy=True)
    comer = replace(wants("w", 3), no_room_since=None, priority_class="high", lacks=1, first_lacks=1)
    fleet = Fleet(offers({"a": some(4, 8)}), {"high": PriorityClass(9)}, {"a": some(3)}, frozenset("a"))
    found = turns([comer, busy], fleet, NOW)
    assert found[busy.name].preempted
    assert found[busy.name].waited_for == 0


@dataclass
class Played:
    """Simulated service: `pods` pods of equal size, with one request, and idle after the answer."""

    name: str
    needs: Amounts
    pods: int
    requested_at: int
    placed: list[str] = field(default_factory=list)
    no_room_since: datetime | None = None
    queued: bool = False
    answered: bool = False
    leaving: bool = False
    first_since: datetime | None = None


amounts = st.builds(some, st.integers(1, 4), st.integers(1, 4))


@settings(max_examples=examples(200), deadline=None)
@given(
    nodes=st.lists(amounts, min_size=1, max_size=3),
    services=st.lists(st.tuples(amounts, st.integers(1, 3), st.integers(0, 5)), min_size=1, max_size=6),
    others=st.sampled_from([some(0, 0), some(1, 1), some(2, 0)]),
    order=st.randoms(use_true_random=False),
    known=st.booleans(),
)
def test_no_model_yields_in_vain_and_fitting_models_answer_for_any_fleet(
    nodes: list[Amounts],
    services: list[tuple[Amounts, int, int]],
    others: Amounts,
    order: Any,
    known: bool,
) -> None:
    """Every model that fits alone answers, and no model sleeps in vain.

    The scheduler takes pods in any order, and other pods use part of a node. If those pods are not known, a
    model may wait until they leave on their own, but still no model leaves in vain.
    """
    size = {f"n{number}": amounts for number, amounts in enumerate(nodes)}
    free = {name: _minus(each, others) if name == "n0" else dict(each) for name, each in size.items()}
    playing = [
        Played(f"s{number}", *each)
        for number, each in enumerate(services)
        if sum(_pods(room, each[0]) for room in free.values()) >= each[1]
    ]
    for second in range(0, 60 * (len(playing) + 1), 5):
        now = NOW + timedelta(seconds=second)
        _schedule([each for each in playing if second >= each.requested_at], free, order, now)
        booked = {name: dict(others) if name == "n0" else some(0, 0) for name in size}
        for each in playing:
            for node in each.placed:
                booked[node] = _minus(booked[node], _times(each.needs, -1))
        claims = [_claim(each, now, frozenset(size)) for each in playing if second >= each.requested_at]
        counted = frozenset(size) if known else frozenset[str]()
        found = turns(claims, Fleet(offers(size), {}, booked, counted), now)
        _not_in_vain(playing, found, free)
        for each in playing:
            turn = found.get((each.name, "m"), Turn())
            each.queued = bool(turn.after)
            if turn.place == 1:
                each.first_since = each.first_since or now
            if turn.after or each.answered:
                each.first_since = None
            if each.leaving or turn.after:
                each.placed, each.no_room_since, each.leaving = [], None, False
            elif turn.gives_way_to:
                each.leaving = True
    assert not known or all(each.answered for each in playing)


def _not_in_vain(
    playing: list[Played], found: Mapping[tuple[str, str], Turn], free: Mapping[str, Amounts]
) -> None:
    """One more pod of the waiting model fits after they have left."""
    leave = {each.name: found.get((each.name, "m"), Turn()) for each in playing}
    for name in {turn.gives_way_to for turn in leave.values()} - {""}:
        [first] = [each for each in playing if each.name == name]
        stay = [each for each in playing if not (each.leaving or leave[each.name].after)]
        before, after = (
            sum(_pods(room, first.needs) for room in _left(free, those).values())
            for those in (stay, [each for each in stay if not leave[each.name].gives_way_to])
        )
        assert before == 0 < after


def _left(free: Mapping[str, Amounts], some: list[Played]) -> dict[str, Amounts]:
    left = dict(free)
    for each in some:
        for node in each.placed:
            left[node] = _minus(left[node], each.needs)
    return left


def _minus(some: Amounts, others: Amounts) -> dict[str, Decimal]:
    return {name: amount - others[name] for name, amount in some.items()}


def _times(some: Amounts, count: int) -> dict[str, Decimal]:
    return {name: count * amount for name, amount in some.items()}


def _pods(room: Amounts, needs: Amounts) -> int:
    return max(0, min(int(room[name] // amount) for name, amount in needs.items()))


def _schedule(there: list[Played], free: Mapping[str, Amounts], order: Any, now: datetime) -> None:
    pending = [
        each
        for each in there
        if not each.answered and not each.queued
        for _ in range(each.pods - len(each.placed))
    ]
    order.shuffle(pending)
    for each in pending:
        room = [name for name, left in _left(free, there).items() if _pods(left, each.needs)]
        if room:
            each.placed.append(order.choice(room))
        elif each.no_room_since is None:
            each.no_room_since = now
    for each in there:
        if len(each.placed) == each.pods and not each.answered:
            each.answered, each.no_room_since = True, None


def _claim(each: Played, now: datetime, nodes: frozenset[str]) -> Claim:
    holds = Counter(each.placed)
    return Claim(
        owner=each.name,
        model="m",
        resource=CORES,
        since=NOW + timedelta(seconds=each.requested_at),
        holds=holds,
        waits=not each.answered,
        no_room_since=each.no_room_since,
        queued=each.queued,
        requested=not each.answered,
        leaving=each.leaving,
        first_since=each.first_since,
        nodes=None if each.answered else nodes,
        yields_at=ago(1) if each.answered and not each.leaving else None,
        needs={} if each.answered else each.needs,
        gives={node: _times(each.needs, count) for node, count in holds.items()},
    )
