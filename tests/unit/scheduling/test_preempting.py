"""Models that leave before the scheduler deletes their pods for pods of a higher priority."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.scheduling.claim import Claim, Turn
from daybreak.scheduling.fleet import Fleet
from daybreak.scheduling.pod_priority import PriorityClass, priority
from daybreak.scheduling.room import Booked
from daybreak.scheduling.turns import turns
from tests.budget import examples
from tests.unit.scheduling.claims import GPU, NOW, ago, gives_way, holder, places

CLASSES = {
    "high": PriorityClass(1000),
    "higher": PriorityClass(2000),
    "polite": PriorityClass(1000, preempts=False),
    "low": PriorityClass(-10),
}


def gpus(count: int) -> dict[str, Decimal]:
    """Return the given number of GPUs."""
    return {GPU: Decimal(count)}


def comer(owner: str, of: str = "high", *, devices: int = 1, lacks: int = 1, **more: Any) -> Claim:
    """Return the claim of a model that is about to create its pods."""
    claim = Claim(f"default/{owner}", "m", GPU, ago(1), devices, waits=True, requested=True)
    common: dict[str, Any] = {"priority_class": of, "needs": gpus(devices), "lacks": lacks, "first_lacks": 1}
    return replace(claim, **common | more)


def stands(owner: str, idle: float | None = None, of: str = "", **holds: int) -> Claim:
    """Return the claim of an awake model, busy or idle for the given seconds."""
    gives = {node: gpus(count) for node, count in holds.items()}
    claim = replace(holder(owner, idle, **holds), gives=gives, priority_class=of)
    return replace(claim, busy=idle is None)


def decided(
    *claims: Claim, taken: Booked | None = None, requested: bool = True, **nodes: int
) -> dict[str, Turn]:
    """Return the turns by workload name; pods outside the claims may have taken some accelerators."""
    total: dict[str, dict[str, Decimal]] = {node: dict(amounts) for node, amounts in (taken or {}).items()}
    for claim in claims:
        for node, amounts in claim.gives.items():
            own = total.setdefault(node, {})
            for name, amount in amounts.items():
                own[name] = own.get(name, Decimal(0)) + amount
    fleet = Fleet(places(**nodes), CLASSES, total if requested else None)
    found = turns(claims, fleet, NOW)
    return {owner.removeprefix("default/"): turn for (owner, _), turn in found.items()}


def test_lower_priority_model_yields_before_its_pods_are_preempted() -> None:
    found = decided(comer("high"), stands("busy", a=1), a=1)
    assert found["high"].after == ("default/busy",)
    assert found["high"].look_again is not None
    assert (found["busy"].gives_way_to, found["busy"].preempted) == ("default/high", True)


def test_model_stays_if_capacity_is_free_or_preemption_is_impossible() -> None:
    assert decided(comer("high"), stands("busy", a=1), a=2) == {}
    for of in ("", "polite", "low"):
        assert decided(comer("w", of), stands("busy", a=1), a=1) == {}, of
    assert decided(comer("high"), stands("peer", of="higher", a=1), a=1) == {}
    elsewhere = comer("high", nodes=frozenset({"b"}))
    assert decided(elsewhere, stands("busy", a=1), a=1, b=1) == {}


def test_accelerators_of_other_pods_are_not_free() -> None:
    found = decided(comer("high"), stands("busy", a=1), taken={"a": gpus(1)}, a=2)
    assert found["busy"].preempted
    # Until the other pods are known, the model creates no pods, and no model leaves.
    found = decided(comer("high"), stands("busy", a=1), requested=False, a=2)
    assert (found["high"].after, found.get("busy")) == (("default/busy",), None)


def test_idle_model_yields_before_busy_model() -> None:
    idle, busy = stands("idle", 60, of="high", a=1), stands("busy", b=1)
    found = decided(comer("high"), idle, busy, a=1, b=1)
    assert gives_way(found) == {"idle": "default/high"}
    assert not found["idle"].preempted, "a request keeps it awake"
    night = replace(stands("night", 60, b=1), background=True)
    assert gives_way(decided(comer("high"), idle, busy, night, a=1, b=2)) == {"night": "default/high"}


def test_model_stays_if_yielding_would_not_free_enough_accelerators() -> None:
    two = comer("high", devices=2)
    assert gives_way(decided(two, stands("x", a=1), stands("y", b=1), a=1, b=1)) == {}
    both = decided(two, stands("x", a=1), stands("y", a=1), a=2)
    assert set(gives_way(both)) == {"x", "y"}
    # The scheduler would delete pods for one of the two, and the other one would wait forever.
    pair = comer("high", lacks=2, first_lacks=2)
    found = decided(pair, stands("x", a=1), stands("peer", of="high", b=1), a=1, b=1)
    assert found["high"].after
    assert gives_way(found) == {}
    # Of one that can do with one of them the scheduler would delete one, too.
    found = decided(replace(pair, first_lacks=1), stands("x", a=1), stands("peer", of="high", b=1), a=1, b=1)
    assert gives_way(found) == {"x": "default/high"}


def test_leaving_model_suffices_and_stays_down_until_pods_are_scheduled() -> None:
    going = replace(stands("going", a=1), leaving=True, requested=True, comes_back=True)
    found = decided(comer("high"), going, stands("busy", b=1), a=1, b=1)
    assert gives_way(found) == {"going": "default/high"}
    assert found["going"].preempted
    # Its pods are gone, and those of the other model are being created.
    asleep = replace(going, gives={}, holds={})
    found = decided(comer("high"), asleep, a=1)
    assert (found["going"].preempted, found.get("high")) == (True, None)
    assert decided(comer("high", lacks=0), asleep, a=1) == {}


def test_starting_model_releases_pods_and_waits_for_higher_priority() -> None:
    starting = replace(stands("starting", a=1), waits=True, yields_at=None)
    found = decided(comer("high"), starting, a=1)
    assert found["starting"].after == ("default/high",)
    # A model that would take currently free capacity waits too.
    second = comer("second", "")
    assert decided(comer("high"), second, a=1)["second"].after == ("default/high",)
    assert decided(comer("high"), second, a=2) == {}


def test_higher_priority_model_is_first_in_queue() -> None:
    found = decided(comer("high"), comer("higher", "higher"), stands("x", a=1), stands("y", b=1), a=1, b=1)
    assert gives_way(found) == {"x": "default/higher", "y": "default/high"}
    assert (found["higher"].place, found["high"].place) == (1, 2)


def test_no_model_yields_for_abandoned_or_overdue_wake() -> None:
    gone = decided(comer("high", abandoned=True), stands("busy", a=1), a=1)
    assert gone["high"].after
    assert gives_way(gone) == {}
    assert decided(comer("high", wake_overdue=True), stands("busy", a=1), a=1) == {}


def test_queued_model_creates_pods_when_capacity_is_free() -> None:
    queued = comer("high", queued=True)
    found = decided(queued, a=1)
    assert not found["high"].after
    # A waiting model of a lower priority comes after it, despite its longer wait.
    low = comer("low", "low", since=ago(600), no_room_since=ago(600))
    found = decided(queued, low, a=1)
    assert found["low"].after == ("default/high",)


@dataclass
class Played:
    """Simulated service: `pods` pods of `devices` GPUs each.

    The service receives requests for `busy` seconds after its answer.
    """

    name: str
    of: str
    devices: int
    pods: int
    requested_at: int
    busy: int
    placed: list[str] = field(default_factory=list)
    no_room_since: datetime | None = None
    queued: bool = False
    answered_at: int | None = None
    leaving: bool = False
    asleep: bool = False
    interrupted: bool = False
    """True if the service was busy when it had to leave: it wakes again."""

    def asks(self, second: int) -> bool:
        """Return True if the service has running requests."""
        return self.answered_at is not None and second < self.answered_at + self.busy


@settings(max_examples=examples(100), deadline=None)
@given(
    nodes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    services=st.lists(
        st.tuples(
            st.sampled_from(["", "", "high", "higher", "low"]),
            st.integers(1, 4),
            st.integers(1, 2),
            st.integers(0, 12),
            st.sampled_from([0, 20, 40]),
        ),
        min_size=2,
        max_size=6,
    ),
    others=st.integers(0, 2),
    order=st.randoms(use_true_random=False),
)
def test_all_services_answer_without_preemption_for_any_fleet(
    nodes: list[int], services: list[tuple[str, int, int, int, int]], others: int, order: Any
) -> None:
    """The scheduler takes pods in any order, and deletes pods of a lower priority.

    Running requests of a leaving service finish; new ones are held, and the service wakes again on its own.
    """
    size = {f"n{number}": count for number, count in enumerate(nodes)}
    taken = {"n0": min(others, size["n0"])}
    free = {node: count - taken.get(node, 0) for node, count in size.items()}
    some = [
        Played(f"s{number}", *each)
        for number, each in enumerate(services)
        if sum(count // each[1] for count in free.values()) >= each[2]
    ]
    for second in range(0, 120 * (len(some) + 1), 5):
        now = NOW + timedelta(seconds=second)
        found = _look(some, size, taken, now, second)
        for each in some:
            turn = found.get((each.name, "m"), Turn())
            _obey(each, turn, second)
        _schedule(some, free, order, now, second)
    assert all(each.answered_at is not None for each in some), [each.name for each in some]


def _schedule(some: list[Played], free: dict[str, int], order: Any, now: datetime, second: int) -> None:
    used = Counter[str]()
    for each in some:
        used.update({name: each.devices * each.placed.count(name) for name in set(each.placed)})
    pending = [
        each
        for each in some
        if second >= each.requested_at and each.answered_at is None and not (each.queued or each.asleep)
        for _ in range(each.pods - len(each.placed))
    ]
    order.shuffle(pending)
    pending.sort(key=lambda each: -priority(CLASSES, each.of).value)
    for each in pending:
        room = [name for name in free if free[name] - used[name] >= each.devices]
        if room:
            name = order.choice(room)
            used[name] += each.devices
            each.placed.append(name)
            continue
        own = priority(CLASSES, each.of).value
        for name in free:
            lower = sum(
                other.devices * other.placed.count(name)
                for other in some
                if priority(CLASSES, other.of).value < own
            )
            # If pods were pending before other models' departure was enough, the scheduler decides.
            late = each.no_room_since is not None and each.no_room_since < now
            assert late or free[name] - used[name] + lower < each.devices, "it would delete them"
        each.no_room_since = each.no_room_since or now
    for each in some:
        if len(each.placed) == each.pods and each.answered_at is None:
            each.answered_at, each.no_room_since = second, None


def _look(
    some: list[Played], size: dict[str, int], taken: dict[str, int], now: datetime, second: int
) -> dict[tuple[str, str], Turn]:
    booked = {node: gpus(taken.get(node, 0)) for node in size}
    claims = []
    for each in some:
        if second < each.requested_at:
            continue
        up = each.answered_at is not None
        waits = not (up or each.leaving or each.asleep)
        holds = {name: each.devices * each.placed.count(name) for name in set(each.placed)}
        for name, count in holds.items():
            booked[name][GPU] += count
        lacks = each.pods - len(each.placed) if waits else 0
        claims.append(
            Claim(
                owner=each.name,
                model="m",
                resource=GPU,
                since=NOW + timedelta(seconds=each.requested_at),
                devices=each.devices,
                holds=holds,
                waits=waits,
                no_room_since=each.no_room_since,
                queued=each.queued,
                requested=waits,
                leaving=each.leaving or each.asleep,
                yields_at=now if up and not each.leaving and not each.asks(second) else None,
                busy=each.asks(second),
                priority_class=each.of,
                needs=gpus(each.devices),
                gives={name: gpus(count) for name, count in holds.items()},
                lacks=lacks,
                first_lacks=lacks,
                comes_back=each.interrupted,
            )
        )
    return turns(claims, Fleet(places(**size), CLASSES, booked), now)


def _obey(each: Played, turn: Turn, second: int) -> None:
    each.queued = bool(turn.after)
    if turn.after:
        each.placed, each.no_room_since = [], None
    if each.asleep:
        if each.interrupted and not turn.preempted:
            # The service creates pods after it has been reconciled as waking.
            each.asleep, each.interrupted, each.answered_at = False, False, None
            each.requested_at = second + 1
    elif each.leaving:
        if not each.asks(second):
            each.placed, each.leaving, each.asleep = [], False, True
    elif turn.gives_way_to and (turn.preempted or not each.asks(second)):
        each.leaving, each.interrupted = True, each.asks(second)
