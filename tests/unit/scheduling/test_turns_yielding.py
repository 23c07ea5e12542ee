"""Models that yield to the first one in the queue."""

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.scheduling.claim import Claim
from daybreak.scheduling.replica_size import DEVICE_CLAIMS
from tests.budget import examples
from tests.unit.scheduling.claims import NOW, batch, decided, gives_way, holder, lost, places, waiter


def test_idle_model_yields_and_busy_model_stays() -> None:
    assert gives_way(decided(waiter("w"), holder("idle", 10, a=1))) == {"idle": "default/w"}
    assert gives_way(decided(waiter("w"), holder("busy", None, a=1))) == {}


def test_model_does_not_yield_before_its_yield_time() -> None:
    soon = replace(holder("soon", None, a=1), yields_at=NOW + timedelta(seconds=1))
    found = decided(waiter("w"), soon)
    assert gives_way(found) == {}
    assert found["w"].look_again is not None


def test_longest_idle_model_yields() -> None:
    found = decided(waiter("w"), holder("a", 10, n=1), holder("b", 90, n=1), holder("c", 30, o=1))
    assert gives_way(found) == {"b": "default/w"}


def test_models_yield_only_if_one_node_gets_enough_accelerators() -> None:
    two = waiter("w", devices=2)
    apart = [holder("a", 10, n=1), holder("b", 90, o=1)]
    assert gives_way(decided(two, *apart, nodes=places(n=1, o=1))) == {}
    together = [holder("c", 5, p=1), holder("d", 7, p=1)]
    found = decided(two, *apart, *together, nodes=places(n=1, o=1, p=2))
    assert gives_way(found) == {"c": "default/w", "d": "default/w"}


def test_free_accelerators_count_toward_required_accelerators() -> None:
    two = waiter("w", devices=2)
    assert gives_way(decided(two, holder("a", 10, n=1), nodes=places(n=2))) == {"a": "default/w"}
    assert gives_way(decided(two, holder("a", 10, n=1), nodes=places(n=1))) == {}


def test_smallest_sufficient_set_of_models_yields() -> None:
    two = waiter("w", devices=2)
    small, large = [holder("a", 900, n=1), holder("b", 900, n=1)], holder("c", 10, o=2)
    assert gives_way(decided(two, *small, large, nodes=places(n=2, o=2))) == {"c": "default/w"}


def test_longest_idle_models_yield_among_sets_of_equal_size() -> None:
    large, small = holder("large", 900, n=4), holder("small", 10, o=1)
    both = places(n=4, o=1)
    assert gives_way(decided(waiter("w"), large, small, nodes=both)) == {"large": "default/w"}
    # Of models with equal idle time, the one with fewer accelerators yields.
    assert gives_way(decided(waiter("w"), large, replace(small, yields_at=large.yields_at), nodes=both)) == {
        "small": "default/w"
    }
    # A set is as idle as its most recently used model.
    four = waiter("w", devices=4)
    pairs = [holder("a", 800, n=2), holder("b", 20, n=2), holder("c", 40, o=2), holder("d", 30, o=2)]
    found = gives_way(decided(four, *pairs, nodes=places(n=4, o=4)))
    assert found == {"c": "default/w", "d": "default/w"}


def test_no_superfluous_model_yields() -> None:
    two = waiter("w", devices=2)
    small, large = holder("small", 900, n=1), holder("large", 10, n=2)
    assert gives_way(decided(two, small, large, nodes=places(n=3))) == {"large": "default/w"}
    # No batch yields in addition to a sufficient service; but two batches yield before a service does.
    night, day, run = (batch(name, ran=60, n=1) for name in ("night", "day", "run"))
    assert set(gives_way(decided(two, night, day, run, large, nodes=places(n=5)))) == {"day", "night"}
    four = waiter("w", devices=4)
    found = gives_way(decided(four, night, large, holder("other", 900, n=2), nodes=places(n=5)))
    assert set(found) == {"large", "other"}
    requested = replace(holder("asked", 900, n=2), busy=True)
    assert set(gives_way(decided(two, night, small, requested, nodes=places(n=4)))) == {"night", "small"}


@settings(max_examples=examples(300), deadline=None)
@given(
    holds=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 900), st.sampled_from(["idle", "idle", "busy", "batch"])),
        min_size=1,
        max_size=6,
    ),
    devices=st.integers(1, 8),
)
def test_yielding_set_is_best_sufficient_set_for_any_holders(
    holds: list[tuple[int, int, str]], devices: int
) -> None:
    """The chosen set is the best of all sufficient sets, by trying each.

    First it has the fewest busy models, then the fewest idle ones, then the fewest batches, and then the
    longest idle time.
    """
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


def test_only_models_on_permitted_nodes_yield() -> None:
    elsewhere = waiter("w", nodes=frozenset({"b"}))
    holders = [holder("x", 900, a=1), holder("y", 10, b=1)]
    assert gives_way(decided(elsewhere, *holders, nodes=places(a=1, b=1))) == {"y": "default/w"}


def test_model_with_lost_pods_yields_to_earlier_model_with_lost_pods() -> None:
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


def test_idle_model_with_lost_pods_yields_to_waiting_model() -> None:
    idle = lost("idle", busy=False, a=1)
    found = decided(waiter("w"), idle)
    assert not found["w"].after
    assert gives_way(found) == {"idle": "default/w"}
    assert found["idle"].preempted, "it does not answer, and falls asleep all the same"
    assert decided(idle) == {}


def test_no_model_yields_to_abandoned_model() -> None:
    gone = waiter("gone", waited=900, requested=False, abandoned=True, priority=9)
    idle = holder("idle", 900, a=1)
    assert gives_way(decided(gone, idle)) == {}
    # A abandoned claim is never ahead of another one.
    for other in (waiter("w"), waiter("late", overdue=True), batch("night", waited=10)):
        assert decided(gone, other, idle)["gone"].after == (other.owner,)
    assert gives_way(decided(gone, waiter("w"), idle)) == {"idle": "default/w"}
    over = replace(holder("over", None, a=1), leaving=True, stays_down=True)
    assert gives_way(decided(gone, over)) == {}, "who was asked to sleep for it need not stay down"


def test_unreported_accelerators_count_only_when_released() -> None:
    """Accelerators count by their release if no node reports them, as with ResourceClaims."""
    two = replace(waiter("w", devices=2), resource=DEVICE_CLAIMS)
    one, both = (
        replace(holder(name, 60, **{node: count}), resource=DEVICE_CLAIMS)
        for name, node, count in (("one", "a", 1), ("both", "b", 2))
    )
    assert gives_way(decided(two, one, both, nodes=places(a=4, b=4))) == {"both": "default/w"}
    assert gives_way(decided(two, one, nodes=places(a=4))) == {}


def test_batch_yields_before_idle_service() -> None:
    found = decided(waiter("w"), batch("night", ran=60, a=1), holder("idle", 9000, b=1))
    assert gives_way(found) == {"night": "default/w"}


def test_busy_model_yields_only_if_no_idle_model_suffices() -> None:
    requested = replace(holder("asked", 900, a=1), busy=True)
    assert gives_way(decided(waiter("w"), requested, holder("idle", 5, b=1), nodes=places(a=1, b=1))) == {
        "idle": "default/w"
    }
    assert gives_way(decided(waiter("w"), requested)) == {"asked": "default/w"}


def test_yielded_model_stays_down_while_another_model_waits() -> None:
    over = replace(holder("over", None, a=1), leaving=True, stays_down=True)
    assert gives_way(decided(waiter("w"), over)) == {"over": "default/w"}
    assert decided(over, holder("other", None)) == {}


def test_mig_slice_sizes_have_separate_queues() -> None:
    """Slices of one size provide neither a slice of another size nor a whole device."""
    small, large = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"
    wants = replace(waiter("wants"), resource=small)
    others = [replace(holder("large", 900, a=1), resource=large), holder("whole", 900, a=1)]
    assert gives_way(decided(wants, *others)) == {}
    same = replace(holder("small", 5, a=1), resource=small)
    found = decided(wants, *others, same)
    assert gives_way(found) == {"small": "default/wants"}
    assert found["wants"].held_by == ("default/small",)
