"""Liveness of the queue: every model that fits alone is awake in the end."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.scheduling.claim import Claim, Turn
from daybreak.scheduling.fleet import Fleet
from daybreak.scheduling.turns import turns
from tests.budget import examples
from tests.unit.scheduling.claims import GPU, NOW, places


@dataclass
class Played:
    """Simulated service: `pods` pods of `devices` GPUs each, with one request, and idle after the answer."""

    name: str
    devices: int
    pods: int
    requested_at: int
    placed: list[str] = field(default_factory=list)
    no_room_since: datetime | None = None
    queued: bool = False
    answered_at: int | None = None
    leaving: bool = False
    asleep: bool = False
    first_since: datetime | None = None
    gone_at: int | None = None
    """Second in which the last client leaves if the model is not scheduled by then; None: clients stay."""
    dies_at: int | None = None
    """Second from which the busy awake model loses a pod; None: it loses none."""
    abandoned: bool = False
    stays: int = 0
    """Seconds after the first answer in which the model does not yield, as if busy or updating."""

    @property
    def lost(self) -> bool:
        """Return True if the model is awake and has lost pods."""
        awake = self.answered_at is not None and not (self.leaving or self.asleep)
        return awake and len(self.placed) < self.pods

    @property
    def whole(self) -> bool:
        """Return True if the model is awake and has lost no pod."""
        return self.answered_at is not None and len(self.placed) == self.pods


@settings(max_examples=examples(300), deadline=None)
@given(
    nodes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    services=st.lists(
        st.tuples(
            st.integers(1, 4),
            st.integers(1, 3),
            st.integers(0, 5),
            st.sampled_from([None, None, 20, 60]),
            st.sampled_from([None, 10, 30, 60]),
        ),
        min_size=1,
        max_size=6,
    ),
    order=st.randoms(use_true_random=False),
    node_wait=st.sampled_from([0, 0, 20, 60]),
    foreign=st.lists(st.integers(0, 7), min_size=3, max_size=3),
    stays=st.lists(st.sampled_from([0, 0, 15, 40]), min_size=6, max_size=6),
    counted=st.booleans(),
)
def test_every_model_that_fits_alone_answers_for_any_fleet(
    nodes: list[int],
    services: list[tuple[int, int, int, int | None, int | None]],
    order: Any,
    node_wait: int,
    foreign: list[int],
    stays: list[int],
    counted: bool,
) -> None:
    """Every model that fits alone eventually answers.

    The scheduler takes pods in any order. Pods outside Daybreak use accelerators of the nodes, and some awake
    models do not yield for a while. Models leave only by turns. While nodes may be added, no model leaves or
    releases accelerators; that time counts once for all waiting models, not once for each. A waiting model
    without clients leaves the queue, and no model yields to it. Some busy awake models lose a pod.
    """
    size = {f"n{number}": gpus for number, gpus in enumerate(nodes)}
    some = [
        Played(f"s{number}", devices, pods, requested, gone_at=gone, dies_at=dies, stays=stays[number])
        for number, (devices, pods, requested, gone, dies) in enumerate(services)
        if sum(gpus // devices for gpus in size.values()) >= pods
    ]
    wait, waited_from = timedelta(seconds=node_wait), None
    deaths = sum(each.dies_at is not None for each in some)
    longest = (60 + node_wait) * (len(some) + deaths + 1) + sum(each.stays for each in some) * (deaths + 1)
    for second in range(0, longest, 5):
        now = NOW + timedelta(seconds=second)
        _lose_pods(some, order, second)
        _schedule(some, size, order, now, second)
        claims = [_claim(each, now, second) for each in some if second >= each.requested_at]
        fleet = _fleet(size, foreign, claims, counted=counted)
        found = turns(claims, fleet, now, wait)
        waited_from = (waited_from or now) if any(claim.short for claim in claims) else None
        if waited_from is not None and now - waited_from < wait:
            assert not [turn for turn in found.values() if turn.after or turn.gives_way_to]
        gone = {each.name for each in some if each.abandoned}
        assert not [turn for turn in found.values() if turn.gives_way_to in gone]
        some = [each for each in some if not each.abandoned]
        for each in some:
            each.abandoned = each.gone_at is not None and second >= each.gone_at and each.answered_at is None
            turn = found.get((each.name, "m"), Turn())
            _follow(each, turn, now, second)
    assert all(each.answered_at is not None for each in some)
    assert not [each for each in some if each.lost]


def _lose_pods(some: list[Played], order: Any, second: int) -> None:
    for each in some:
        if each.dies_at is not None and each.dies_at <= second and each.whole and not each.leaving:
            each.placed.pop(order.randrange(each.pods))
            each.dies_at = None


def _fleet(size: dict[str, int], foreign: list[int], claims: list[Claim], *, counted: bool) -> Fleet:
    """Return nodes with `foreign` accelerators that pods outside Daybreak use; `counted` if that is known."""
    whole = {name: gpus + more for (name, gpus), more in zip(size.items(), foreign, strict=False)}
    if not counted:
        return Fleet(places(**whole))
    taken = {
        name: {GPU: Decimal(more + sum(claim.holds.get(name, 0) for claim in claims))}
        for name, more in zip(size, foreign, strict=False)
    }
    return Fleet(places(**whole), {}, taken, frozenset(size))


def _follow(each: Played, turn: Turn, now: datetime, second: int) -> None:
    """Apply a turn to a service, as the operator does."""
    assert not (turn.after and each.answered_at is not None), "its gate is open"
    if each.lost and turn.gives_way_to:
        # The gate closes, and the model wakes again for its clients.
        each.placed, each.no_room_since, each.answered_at = [], None, None
        each.requested_at = second
        return
    each.queued = bool(turn.after)
    if turn.after or each.answered_at is not None:
        each.first_since = None
    elif turn.place == 1:
        each.first_since = each.first_since or now
    if each.leaving or turn.after:
        each.asleep = each.leaving
        each.placed, each.no_room_since, each.leaving = [], None, False
    elif turn.gives_way_to:
        each.leaving = True


def _schedule(some: list[Played], size: dict[str, int], order: Any, now: datetime, second: int) -> None:
    used = Counter[str]()
    for each in some:
        used.update({name: each.devices * each.placed.count(name) for name in set(each.placed)})
    pending = [
        each
        for each in some
        if second >= each.requested_at and (each.lost or each.answered_at is None) and not each.queued
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
        if len(each.placed) == each.pods and not each.leaving:
            each.answered_at = second if each.answered_at is None else each.answered_at
            each.no_room_since = None


def _claim(each: Played, now: datetime, second: int) -> Claim:
    up = each.answered_at is not None
    stays = each.answered_at is not None and second < each.answered_at + each.stays
    requested = NOW + timedelta(seconds=each.requested_at)
    holds = {name: each.devices * each.placed.count(name) for name in set(each.placed)}
    return Claim(
        owner=each.name,
        model="m",
        resource=GPU,
        since=requested,
        devices=each.devices,
        holds=holds,
        waits=not up,
        no_room_since=each.no_room_since,
        queued=each.queued,
        requested=not up and not each.abandoned,
        abandoned=each.abandoned,
        leaving=each.leaving,
        lost=each.lost and each.no_room_since is not None,
        first_since=each.first_since,
        yields_at=now if each.whole and not (each.leaving or stays) else None,
    )
