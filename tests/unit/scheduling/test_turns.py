"""Whose turn it is where accelerators are scarce."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.scheduling.claim import PATIENCE, Claim, Turn
from daybreak.scheduling.nodes import NodeCapacity, capacity
from daybreak.scheduling.replica_size import DEVICE_CLAIMS
from daybreak.scheduling.turns import Fleet, turns
from tests.budget import examples
from tests.unit.llmservice.decide.scenes.services import node

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
    found = turns(claims, Fleet(nodes if nodes is not None else places(a=1)), NOW)
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


def test_of_as_many_the_longest_idle_one_is_put_to_sleep_whatever_it_gives_back() -> None:
    large, small = holder("large", 900, n=4), holder("small", 10, o=1)
    both = places(n=4, o=1)
    assert gives_way(decided(waiter("w"), large, small, nodes=both)) == {"large": "default/w"}
    # Of those that are idle for as long, the one that gives back less.
    assert gives_way(decided(waiter("w"), large, replace(small, yields_at=large.yields_at), nodes=both)) == {
        "small": "default/w"
    }
    # Several are as idle as the last one of them.
    four = waiter("w", devices=4)
    pairs = [holder("a", 800, n=2), holder("b", 20, n=2), holder("c", 40, o=2), holder("d", 30, o=2)]
    found = gives_way(decided(four, *pairs, nodes=places(n=4, o=4)))
    assert found == {"c": "default/w", "d": "default/w"}


def test_nobody_is_put_to_sleep_who_need_not_be() -> None:
    two = waiter("w", devices=2)
    small, large = holder("small", 900, n=1), holder("large", 10, n=2)
    assert gives_way(decided(two, small, large, nodes=places(n=3))) == {"large": "default/w"}
    # Nor a batch beside a service that is enough; but rather two batches than a service.
    night, day, run = (batch(name, ran=60, n=1) for name in ("night", "day", "run"))
    assert set(gives_way(decided(two, night, day, run, large, nodes=places(n=5)))) == {"day", "night"}
    four = waiter("w", devices=4)
    found = gives_way(decided(four, night, large, holder("other", 900, n=2), nodes=places(n=5)))
    assert set(found) == {"large", "other"}
    asked = replace(holder("asked", 900, n=2), busy=True)
    assert set(gives_way(decided(two, night, small, asked, nodes=places(n=4)))) == {"night", "small"}


@settings(max_examples=examples(300), deadline=None)
@given(
    holds=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 900), st.sampled_from(["idle", "idle", "busy", "batch"])),
        min_size=1,
        max_size=6,
    ),
    devices=st.integers(1, 8),
)
def test_no_fewer_could_have_made_room(holds: list[tuple[int, int, str]], devices: int) -> None:
    """Of all sets that make room, by trying each: the fewest that are asked, then that may be, then batches;
    and of those the ones that are idle longest."""
    kinds = ("busy", "idle", "batch")
    claims = [
        replace(holder(f"h{number}", idle, n=gpus), busy=kind == "busy", background=kind == "batch")
        for number, (gpus, idle, kind) in enumerate(holds)
    ]
    kind_of = {claim.name: kinds.index(kind) for claim, (_, _, kind) in zip(claims, holds, strict=True)}

    def dear(some: Collection[Claim]) -> tuple[object, ...]:
        idle = [
            sorted(claim.yields_at or NOW for claim in some if kind_of[claim.name] == at) for at in range(3)
        ]
        return (*map(len, idle), *idle)

    size = sum(gpus for gpus, _, _ in holds)
    makes_room = [
        some
        for count in range(1, len(claims) + 1)
        for some in combinations(claims, count)
        if sum(claim.holds["n"] for claim in some) >= devices
    ]
    found = gives_way(decided(waiter("w", devices=devices), *claims, nodes=places(n=size)))
    chosen = [claim for claim in claims if claim.owner.removeprefix("default/") in found]
    assert dear(chosen) == min(map(dear, makes_room), default=dear(()))


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
    found = decided(placed, queued)["queued"]
    assert (found.after, found.place, found.look_again) == ((), 1, None)


def test_the_others_wait_on_while_the_first_one_makes_its_pods_anew() -> None:
    """It has just been let go, so the scheduler has said nothing of its pods yet."""
    first = replace(waiter("first", waited=90, first_since=ago(1)), no_room_since=None)
    queued = replace(waiter("queued"), no_room_since=None, queued=True)
    found = decided(first, queued, holder("idle", 900, a=1))
    assert found["queued"].after == ("default/first",)
    assert not found["first"].after
    # There may be room for it.
    assert gives_way(found) == {}
    late = replace(first, no_room_since=ago(2))
    assert decided(late, queued)["queued"].after == ("default/first",)


def test_of_a_service_that_begins_the_others_wait_until_who_has_room_answers() -> None:
    """KubeRay calls its Ray cluster active, and lets nobody through before, when all is up that Serve is
    asked for."""
    one = Claim("default/new", "one", GPU, ago(60), 1, holds={"a": 1}, waits=True, begins=True)
    two = replace(waiter("new", begins=True), model="two")
    found = turns([one, two], Fleet(places(a=1)), NOW)
    assert found["default/new", "two"].after == ("default/new",)
    # Those of other services go on: what they wait for may be somebody else's.
    other = waiter("other", waited=30)
    found = turns([one, two, other, holder("idle", 900, b=1)], Fleet(places(a=1, b=1)), NOW)
    assert found["default/idle", "m"].gives_way_to == "default/other"
    # It answers.
    up = replace(one, waits=False, begins=False, yields_at=ago(60))
    found = turns([up, replace(two, begins=False, queued=True, no_room_since=None)], Fleet(places(a=1)), NOW)
    assert not found["default/new", "two"].after


def measured(*seconds: int) -> Claim:
    """An idle model for which such waits took so long."""
    return replace(holder("idle", None, a=1), room_seconds=seconds)


def test_who_waits_is_told_what_to_expect() -> None:
    """By the median of what was measured: as long after the one before as such a wait takes."""
    first = waiter("first", waited=90, first_since=ago(10), room_seconds=(30,))
    others = [waiter("second", waited=60), waiter("third", waited=30)]
    found = decided(*others, first, measured(20, 200))
    places = {owner: turn.place for owner, turn in found.items()}
    assert places == {"first": 1, "second": 2, "third": 3, "idle": 0}
    assert found["first"].expected == NOW + timedelta(seconds=20)
    assert found["second"].expected == NOW + timedelta(seconds=50)
    assert found["third"].expected == NOW + timedelta(seconds=80)


def test_what_to_expect_changes_only_where_it_has_not_come() -> None:
    """Time alone changes a status rarely: past the median the longest wait counts, and then nothing."""
    for waited, expected in ((10, 20), (29, 1), (30, 170), (199, 1), (200, None)):
        first = waiter("first", waited=300, first_since=ago(waited))
        found = decided(first, waiter("second", waited=60), measured(20, 30, 200))
        moment = None if expected is None else NOW + timedelta(seconds=expected)
        assert found["first"].expected == moment
        assert found["second"].expected == (moment and moment + timedelta(seconds=30))


def test_what_is_not_known_is_not_told() -> None:
    first, second = waiter("first", waited=90, first_since=ago(10)), waiter("second", waited=60)
    assert decided(first, second, measured(20, 30))["second"].expected is None, "too few"
    enough = measured(20, 30, 40)
    late, night = waiter("late", overdue=True, waited=900), batch("night", waited=800)
    found = decided(first, late, night, enough)
    assert found["first"].expected is not None
    assert found["late"].expected is found["night"].expected is None, "they wait until nobody else does"
    assert decided(replace(first, first_since=None), second, enough)["second"].expected is None
    other = replace(enough, resource="amd.com/gpu")
    assert decided(first, second, other)["second"].expected is None, "of another kind of accelerator"


def test_what_is_held_while_others_wait_for_it() -> None:
    def waited_for(*claims: Claim) -> dict[str, int]:
        found = decided(*claims, nodes=places(a=4, b=4))
        return {owner: turn.waited_for for owner, turn in found.items() if turn.waited_for}

    big = replace(holder("big", None, a=2, b=2), devices=2)
    assert waited_for(waiter("w"), big, holder("small", 5, a=1)) == {"big": 1, "small": 1}
    assert waited_for(waiter("w"), waiter("v", devices=2), big) == {"big": 3}
    assert waited_for(waiter("w", devices=8), big) == {"big": 4}, "no more than it holds"
    assert waited_for(waiter("big", devices=1), big) == {}, "its own other model waits"
    assert waited_for(batch("night", waited=60), big) == {}, "a batch can wait"
    half = waiter("half", waited=10, holds={"a": 1})
    assert waited_for(waiter("w"), half) == {}, "who gives back what it holds is no holder"


def test_who_comes_first() -> None:
    late, nobody = waiter("late", overdue=True, waited=900), waiter("nobody", asked=False, waited=800)
    young, old = waiter("young", waited=10), waiter("old", waited=700)
    found = decided(late, nobody, young, old)
    assert [owner for owner in ("old", "young", "nobody", "late") if not found[owner].after] == ["old"]
    assert found["late"].after == ("default/old", "default/young", "default/nobody")


def test_whose_oldest_request_has_been_held_longest_comes_first() -> None:
    """Not whose wake began first: that may have been for clients who have gone."""
    impatient = waiter("impatient", waited=700, held_since=ago(5))
    patient = waiter("patient", waited=20, held_since=ago(100))
    assert decided(impatient, patient)["impatient"].after == ("default/patient",)
    # Of a gateway that does not tell, what the wake says counts.
    untold = waiter("untold", waited=50)
    found = decided(impatient, patient, untold)
    assert [found[owner].place for owner in ("patient", "untold", "impatient")] == [1, 2, 3]
    urgent = waiter("urgent", waited=1, held_since=ago(1), priority=1, first_since=ago(1))
    assert decided(impatient, patient, urgent)["patient"].after == ("default/urgent",)


def lost(owner: str, *, busy: bool = True, **holds: int) -> Claim:
    """A model that is awake, has lost pods, and finds no room for others."""
    awake = holder(owner, None if busy else 60, **holds)
    return replace(awake, lost=True, no_room_since=ago(60))


def test_one_that_is_awake_and_has_lost_a_pod_comes_before_all_that_wake() -> None:
    half = waiter("half", waited=900, priority=9, holds={"b": 1})
    found = decided(half, lost("awake", a=1), nodes=places(a=1, b=1))
    assert found["half"].after == ("default/awake",)
    assert (found["awake"].after, found["awake"].place) == ((), 1), "its gate stays open"
    # What comes back is enough, and nobody else leaves; else who is idle does.
    idle = holder("idle", 900, b=1)
    assert gives_way(decided(half, lost("awake", a=1), idle, nodes=places(a=1, b=2))) == {}
    assert gives_way(decided(lost("awake", a=1), idle, nodes=places(a=1, b=1))) == {"idle": "default/awake"}


def test_what_is_awake_and_fits_nowhere_is_in_nobodys_way_for_long() -> None:
    late = replace(lost("awake", a=1), overdue=True)
    found = decided(waiter("w"), late)
    assert not found["w"].after
    assert found["awake"] == Turn(gives_way_to="default/w", preempted=True, waited_for=1)


def test_of_two_that_have_lost_pods_one_closes_its_gate_where_that_makes_room() -> None:
    one, two = lost("one", a=1), lost("two", b=1)
    found = decided(one, two, nodes=places(a=1, b=1))
    assert found["one"].place == 1
    assert gives_way(found) == {"two": "default/one"}
    assert found["two"].preempted, "its gate closes although it is asked, and does not answer"
    assert not found["two"].after
    elsewhere = replace(one, nodes=frozenset({"a"}))
    assert gives_way(decided(elsewhere, two, nodes=places(a=1, b=1))) == {}
    idle = holder("idle", 900, c=1)
    assert gives_way(decided(one, two, idle, nodes=places(a=1, b=1, c=1))) == {"idle": "default/one"}


def test_one_that_has_lost_pods_and_is_idle_wants_none_back_where_others_do() -> None:
    idle = lost("idle", busy=False, a=1)
    found = decided(waiter("w"), idle)
    assert not found["w"].after
    assert gives_way(found) == {"idle": "default/w"}
    assert found["idle"].preempted, "it does not answer, and falls asleep all the same"
    assert decided(idle) == {}


def test_nobody_gives_way_to_one_whose_clients_have_gone() -> None:
    gone = waiter("gone", waited=900, asked=False, forsaken=True, priority=9)
    idle = holder("idle", 900, a=1)
    assert gives_way(decided(gone, idle)) == {}
    # Nor is it before anybody else, whoever that is.
    for other in (waiter("w"), waiter("late", overdue=True), batch("night", waited=10)):
        assert decided(gone, other, idle)["gone"].after == (other.owner,)
    assert gives_way(decided(gone, waiter("w"), idle)) == {"idle": "default/w"}
    over = replace(holder("over", None, a=1), leaving=True, stays_down=True)
    assert gives_way(decided(gone, over)) == {}, "who was asked to sleep for it need not stay down"


def test_who_stands_in_a_queue() -> None:
    found = decided(waiter("first", waited=90), waiter("second"), holder("busy", None, a=1))
    assert [found[owner].in_queue for owner in ("first", "second", "busy")] == [True, True, False]
    # What it waits for is nobody's of ours: a node may be added for its pods.
    assert not decided(waiter("alone"))["alone"].in_queue


def test_of_what_no_node_tells_what_comes_back_counts() -> None:
    """As with accelerators that come by claims."""
    two = replace(waiter("w", devices=2), resource=DEVICE_CLAIMS)
    one, both = (
        replace(holder(name, 60, **{node: count}), resource=DEVICE_CLAIMS)
        for name, node, count in (("one", "a", 1), ("both", "b", 2))
    )
    assert gives_way(decided(two, one, both, nodes=places(a=4, b=4))) == {"both": "default/w"}
    assert gives_way(decided(two, one, nodes=places(a=4))) == {}


def test_each_kind_of_accelerator_is_apart() -> None:
    other = replace(waiter("other", waited=900), resource="amd.com/gpu")
    assert not decided(waiter("w"), other)["w"].after


def after(node_wait: float, *claims: Claim) -> dict[str, Turn]:
    """Turns by the workload's own name, where nodes may be added for so long."""
    found = turns(claims, Fleet(places(a=1)), NOW, timedelta(seconds=node_wait))
    return {owner.removeprefix("default/"): turn for (owner, _), turn in found.items()}


def test_nobody_gives_way_while_nodes_may_be_added() -> None:
    idle, early = holder("idle", 3600, a=1), waiter("w", waited=60)
    found = after(120, early, waiter("v", waited=20), idle)
    assert gives_way(found) == {}
    assert {turn.after for turn in found.values()} == {()}, "their pods say what is needed"
    assert found["w"].look_again == timedelta(seconds=120 - 60) + PATIENCE
    assert gives_way(after(50, early, idle)) == {"idle": "default/w"}


def test_who_comes_while_others_have_waited_for_nodes_is_in_the_queue_at_once() -> None:
    """Else it could take the room that is made for them."""
    found = after(120, waiter("w", waited=200), waiter("v", waited=20))
    assert found["v"].after == ("default/w",)
    # It comes first, has made its pods anew, and does not wait for nodes once more.
    again = waiter("v", waited=6, first_since=ago(10))
    assert gives_way(after(120, again, holder("idle", 3600, a=1))) == {"idle": "default/v"}


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
    asleep: bool = False
    first_since: datetime | None = None
    gone_at: int | None = None
    """When all of its clients have gone, if it has no room by then; None: they wait."""
    dies_at: int | None = None
    """From when on it loses a pod as soon as it is awake, while it is asked; None: it loses none."""
    forsaken: bool = False
    stays: int = 0
    """Seconds for which it does not yield after it has answered, as one that is asked or is updated."""

    @property
    def lost(self) -> bool:
        """Whether it is awake, and has lost pods."""
        awake = self.answered_at is not None and not (self.leaving or self.asleep)
        return awake and len(self.placed) < self.pods

    @property
    def whole(self) -> bool:
        """Whether it is awake, and has lost nothing."""
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
def test_everybody_who_fits_alone_is_answered_in_the_end(
    nodes: list[int],
    services: list[tuple[int, int, int, int | None, int | None]],
    order: Any,
    node_wait: int,
    foreign: list[int],
    stays: list[int],
    counted: bool,
) -> None:
    """The scheduler takes pods in any order. Pods outside Daybreak use accelerators of the nodes, and some
    models that are awake do not yield for a while. Nobody leaves but by turns, and while nodes may be added
    nobody leaves or gives anything back; once for all who wait at a time, not once for each. Who waits and
    has no clients any more goes, and nobody gives way to it. Some lose a pod while they are awake and asked.
    """
    size = {f"n{number}": gpus for number, gpus in enumerate(nodes)}
    some = [
        Played(f"s{number}", devices, pods, asked, gone_at=gone, dies_at=dies, stays=stays[number])
        for number, (devices, pods, asked, gone, dies) in enumerate(services)
        if sum(gpus // devices for gpus in size.values()) >= pods
    ]
    wait, waited_from = timedelta(seconds=node_wait), None
    deaths = sum(each.dies_at is not None for each in some)
    whole = {name: gpus + more for (name, gpus), more in zip(size.items(), foreign, strict=False)}
    longest = (60 + node_wait) * (len(some) + deaths + 1) + sum(each.stays for each in some) * (deaths + 1)
    for second in range(0, longest, 5):
        now = NOW + timedelta(seconds=second)
        for each in some:
            if each.dies_at is not None and each.dies_at <= second and each.whole and not each.leaving:
                each.placed.pop(order.randrange(each.pods))
                each.dies_at = None
        _schedule(some, size, order, now, second)
        claims = [_claim(each, now, second) for each in some if second >= each.asked_at]
        fleet = Fleet(places(**whole))
        if counted:
            taken = {
                name: {GPU: Decimal(more + sum(claim.holds.get(name, 0) for claim in claims))}
                for name, more in zip(size, foreign, strict=False)
            }
            fleet = Fleet(places(**whole), {}, taken, frozenset(size))
        found = turns(claims, fleet, now, wait)
        waited_from = (waited_from or now) if any(claim.short for claim in claims) else None
        if waited_from is not None and now - waited_from < wait:
            assert not [turn for turn in found.values() if turn.after or turn.gives_way_to]
        gone = {each.name for each in some if each.forsaken}
        assert not [turn for turn in found.values() if turn.gives_way_to in gone]
        some = [each for each in some if not each.forsaken]
        for each in some:
            each.forsaken = each.gone_at is not None and second >= each.gone_at and each.answered_at is None
            turn = found.get((each.name, "m"), Turn())
            assert not (turn.after and each.answered_at is not None), "its gate is open"
            if each.lost and turn.gives_way_to:
                # Its gate closes, and it wakes anew for those that ask it.
                each.placed, each.no_room_since, each.answered_at = [], None, None
                each.asked_at = second
                continue
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
    assert all(each.answered_at is not None for each in some)
    assert not [each for each in some if each.lost]


def _schedule(some: list[Played], size: dict[str, int], order: Any, now: datetime, second: int) -> None:
    used = Counter[str]()
    for each in some:
        used.update({name: each.devices * each.placed.count(name) for name in set(each.placed)})
    pending = [
        each
        for each in some
        if second >= each.asked_at and (each.lost or each.answered_at is None) and not each.queued
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
        asked=not up and not each.forsaken,
        forsaken=each.forsaken,
        leaving=each.leaving,
        lost=each.lost and each.no_room_since is not None,
        first_since=each.first_since,
        yields_at=now if each.whole and not (each.leaving or stays) else None,
    )


def batch(owner: str, *, ran: float | None = None, **more: Any) -> Claim:
    """A batch that has run for so long; None: it waits."""
    if ran is None:
        return waiter(owner, background=True, asked=False, **more)
    return replace(holder(owner, ran, **more), background=True)


def test_a_batch_gives_way_before_an_idle_service() -> None:
    found = decided(waiter("w"), batch("night", ran=60, a=1), holder("idle", 9000, b=1))
    assert gives_way(found) == {"night": "default/w"}


def test_a_batch_comes_after_every_service_and_has_nobody_sleep_for_it() -> None:
    found = decided(batch("night", waited=900), waiter("w", waited=10), holder("idle", 9000, a=1))
    assert found["night"].after == ("default/w",)
    assert gives_way(found) == {"idle": "default/w"}
    assert gives_way(decided(batch("night", waited=900), holder("idle", 9000, a=1))) == {}


def test_a_batch_goes_on_when_nobody_is_before_it() -> None:
    queued = batch("night", queued=True, no_room_since=None)
    assert not decided(queued, holder("busy", None, a=1)).get("night", Turn()).after


def test_the_highest_priority_comes_first() -> None:
    found = decided(waiter("old", waited=90), waiter("urgent", waited=10, priority=5))
    assert found["old"].after == ("default/urgent",)


def test_who_waits_is_told_who_holds() -> None:
    found = decided(waiter("a", waited=90), waiter("b", waited=60), holder("busy", None, a=1))
    assert found["b"].held_by == found["a"].held_by == ("default/busy",)


def test_one_that_is_asked_gives_way_only_where_nobody_idle_is_enough() -> None:
    asked = replace(holder("asked", 900, a=1), busy=True)
    assert gives_way(decided(waiter("w"), asked, holder("idle", 5, b=1), nodes=places(a=1, b=1))) == {
        "idle": "default/w"
    }
    assert gives_way(decided(waiter("w"), asked)) == {"asked": "default/w"}


def test_one_whose_turn_is_over_stays_down_while_another_one_waits() -> None:
    over = replace(holder("over", None, a=1), leaving=True, stays_down=True)
    assert gives_way(decided(waiter("w"), over)) == {"over": "default/w"}
    assert decided(over, holder("other", None)) == {}


def test_each_size_of_a_mig_slice_is_a_kind_of_its_own() -> None:
    """As many slices of one size make none of another, and no whole device."""
    small, large = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
    wants = replace(waiter("wants"), resource=small)
    others = [replace(holder("large", 900, a=1), resource=large), holder("whole", 900, a=1)]
    assert gives_way(decided(wants, *others)) == {}
    same = replace(holder("small", 5, a=1), resource=small)
    found = decided(wants, *others, same)
    assert gives_way(found) == {"small": "default/wants"}
    assert found["wants"].held_by == ("default/small",)


def test_turns_are_taken_across_namespaces() -> None:
    here, there = waiter("w"), replace(waiter("w", waited=90), owner="other/w")
    idle = replace(holder("idle", 900, a=1), owner="third/idle")
    found = {owner: turn for (owner, _), turn in turns([here, there, idle], Fleet(places(a=1)), NOW).items()}
    assert (found["other/w"].place, found["default/w"].place) == (1, 2), (
        "one name in two namespaces is two services"
    )
    assert found["default/w"].after == ("other/w",)
    assert found["third/idle"].gives_way_to == "other/w"


def test_of_a_workload_with_several_models_it_is_said_which_of_them_holds() -> None:
    red, blue = (replace(holder("turns", None, a=1), model=name) for name in ("red", "blue"))
    wants = replace(waiter("turns"), model="green")
    found = turns([red, blue, wants, holder("one", None, a=1)], Fleet(places(a=3)), NOW)
    assert found["default/turns", "green"].held_by == (
        "default/one",
        "default/turns/blue",
        "default/turns/red",
    )
