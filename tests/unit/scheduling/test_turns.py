"""Order of the accelerator queue."""

from dataclasses import replace
from datetime import timedelta

from daybreak.scheduling.claim import PATIENCE, Claim, Turn
from daybreak.scheduling.fleet import Fleet
from daybreak.scheduling.turns import turns
from tests.unit.scheduling.claims import (
    GPU,
    NOW,
    ago,
    batch,
    decided,
    gives_way,
    holder,
    lost,
    places,
    waiter,
)


def test_no_model_yields_if_capacity_is_available() -> None:
    starting = replace(waiter("starting"), no_room_since=None)
    assert decided(starting, holder("idle", 3600, a=1)) == {}


def test_no_model_yields_before_scheduler_patience_ends() -> None:
    early = replace(waiter("early"), no_room_since=ago(2))
    found = decided(early, holder("idle", 3600, a=1))
    assert found["early"].look_again == PATIENCE - timedelta(seconds=2)
    assert gives_way(found) == {}


def test_no_other_model_yields_while_a_model_is_leaving() -> None:
    going = replace(holder("going", None, a=1), leaving=True)
    assert gives_way(decided(waiter("w"), going, holder("idle", 900, b=1), nodes=places(a=1, b=1))) == {}


def test_second_model_releases_accelerators_for_first_model() -> None:
    first = waiter("first", waited=90, holds={"a": 1})
    second = waiter("second", waited=60, holds={"b": 1})
    found = decided(second, first, holder("idle", 900, c=1), nodes=places(a=1, b=1, c=1))
    assert found["second"].after == ("default/first",)
    assert not found["first"].after
    # The accelerators that the second model releases are enough.
    assert gives_way(found) == {}


def test_queued_model_waits_until_first_model_is_placed() -> None:
    queued = replace(waiter("queued"), no_room_since=None, queued=True)
    assert decided(waiter("first", waited=90), queued)["queued"].after == ("default/first",)
    placed = replace(waiter("first", waited=90, holds={"a": 1}), no_room_since=None)
    found = decided(placed, queued)["queued"]
    assert (found.after, found.place, found.look_again) == ((), 1, None)


def test_queued_models_wait_while_first_model_recreates_pods() -> None:
    """The first model was allowed to create pods one second ago; the scheduler has no report on them yet."""
    first = replace(waiter("first", waited=90, first_since=ago(1)), no_room_since=None)
    queued = replace(waiter("queued"), no_room_since=None, queued=True)
    found = decided(first, queued, holder("idle", 900, a=1))
    assert found["queued"].after == ("default/first",)
    assert not found["first"].after
    # Capacity may exist for its pods.
    assert gives_way(found) == {}
    late = replace(first, no_room_since=ago(2))
    assert decided(late, queued)["queued"].after == ("default/first",)


def test_model_of_new_service_waits_until_sibling_model_answers() -> None:
    """KubeRay marks a Ray cluster active, and routes requests to it, only when all Serve deployments run."""
    one = Claim("default/new", "one", GPU, ago(60), 1, holds={"a": 1}, waits=True, begins=True)
    two = replace(waiter("new", begins=True), model="two")
    found = turns([one, two], Fleet(places(a=1)), NOW)
    assert found["default/new", "two"].after == ("default/new",)
    # Models of other services continue: they may wait for accelerators of other holders.
    other = waiter("other", waited=30)
    found = turns([one, two, other, holder("idle", 900, b=1)], Fleet(places(a=1, b=1)), NOW)
    assert found["default/idle", "m"].gives_way_to == "default/other"
    # It answers.
    up = replace(one, waits=False, begins=False, yields_at=ago(60))
    found = turns([up, replace(two, begins=False, queued=True, no_room_since=None)], Fleet(places(a=1)), NOW)
    assert not found["default/new", "two"].after


def measured(*seconds: int) -> Claim:
    """Return an idle model with the given measured queue times."""
    return replace(holder("idle", None, a=1), room_seconds=seconds)


def test_expected_time_adds_median_queue_time_per_position() -> None:
    """The estimate adds the median of the measured queue times for each position."""
    first = waiter("first", waited=90, first_since=ago(10), room_seconds=(30,))
    others = [waiter("second", waited=60), waiter("third", waited=30)]
    found = decided(*others, first, measured(20, 200))
    places = {owner: turn.place for owner, turn in found.items()}
    assert places == {"first": 1, "second": 2, "third": 3, "idle": 0}
    assert found["first"].expected == NOW + timedelta(seconds=20)
    assert found["second"].expected == NOW + timedelta(seconds=50)
    assert found["third"].expected == NOW + timedelta(seconds=80)


def test_expected_time_changes_only_when_overdue() -> None:
    """Time alone changes a status rarely: past the median the longest wait counts, and then no estimate."""
    for waited, expected in ((10, 20), (29, 1), (30, 170), (199, 1), (200, None)):
        first = waiter("first", waited=300, first_since=ago(waited))
        found = decided(first, waiter("second", waited=60), measured(20, 30, 200))
        moment = None if expected is None else NOW + timedelta(seconds=expected)
        assert found["first"].expected == moment
        assert found["second"].expected == (moment and moment + timedelta(seconds=30))


def test_expected_time_is_absent_if_unknown() -> None:
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


def test_waited_for_counts_accelerators_that_other_services_need() -> None:
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


def test_queue_orders_models_by_wait_then_unrequested_then_overdue() -> None:
    late, nobody = waiter("late", overdue=True, waited=900), waiter("nobody", requested=False, waited=800)
    young, old = waiter("young", waited=10), waiter("old", waited=700)
    found = decided(late, nobody, young, old)
    assert [owner for owner in ("old", "young", "nobody", "late") if not found[owner].after] == ["old"]
    assert found["late"].after == ("default/old", "default/young", "default/nobody")


def test_model_with_oldest_held_request_is_first() -> None:
    """The start of the wake does not count: that may have been for clients who left."""
    impatient = waiter("impatient", waited=700, held_since=ago(5))
    patient = waiter("patient", waited=20, held_since=ago(100))
    assert decided(impatient, patient)["impatient"].after == ("default/patient",)
    # If the gateway does not report an age, the start of the wake counts.
    untold = waiter("untold", waited=50)
    found = decided(impatient, patient, untold)
    assert [found[owner].place for owner in ("patient", "untold", "impatient")] == [1, 2, 3]
    urgent = waiter("urgent", waited=1, held_since=ago(1), priority=1, first_since=ago(1))
    assert decided(impatient, patient, urgent)["patient"].after == ("default/urgent",)


def test_awake_model_that_lost_a_pod_is_before_waking_models() -> None:
    half = waiter("half", waited=900, priority=9, holds={"b": 1})
    found = decided(half, lost("awake", a=1), nodes=places(a=1, b=1))
    assert found["half"].after == ("default/awake",)
    assert (found["awake"].after, found["awake"].place) == ((), 1), "its gate stays open"
    # If the recreated pod's accelerators are enough, no other model leaves; otherwise the idle one does.
    idle = holder("idle", 900, b=1)
    assert gives_way(decided(half, lost("awake", a=1), idle, nodes=places(a=1, b=2))) == {}
    assert gives_way(decided(lost("awake", a=1), idle, nodes=places(a=1, b=1))) == {"idle": "default/awake"}


def test_overdue_awake_model_yields_to_waiting_model() -> None:
    late = replace(lost("awake", a=1), overdue=True)
    found = decided(waiter("w"), late)
    assert not found["w"].after
    assert found["awake"] == Turn(gives_way_to="default/w", preempted=True, waited_for=1)


def test_in_queue_is_true_only_if_other_workloads_hold_accelerators() -> None:
    found = decided(waiter("first", waited=90), waiter("second"), holder("busy", None, a=1))
    assert [found[owner].in_queue for owner in ("first", "second", "busy")] == [True, True, False]
    # No workload of Daybreak blocks it: a node may be added for its pods.
    assert not decided(waiter("alone"))["alone"].in_queue


def test_accelerator_kinds_have_separate_queues() -> None:
    other = replace(waiter("other", waited=900), resource="amd.com/gpu")
    assert not decided(waiter("w"), other)["w"].after


def after(node_wait: float, *claims: Claim) -> dict[str, Turn]:
    """Return the turns by the name of the workload, if nodes may be added for `node_wait` seconds."""
    found = turns(claims, Fleet(places(a=1)), NOW, timedelta(seconds=node_wait))
    return {owner.removeprefix("default/"): turn for (owner, _), turn in found.items()}


def test_no_model_yields_while_nodes_may_be_added() -> None:
    idle, early = holder("idle", 3600, a=1), waiter("w", waited=60)
    found = after(120, early, waiter("v", waited=20), idle)
    assert gives_way(found) == {}
    assert {turn.after for turn in found.values()} == {()}, "their pods say what is needed"
    assert found["w"].look_again == timedelta(seconds=120 - 60) + PATIENCE
    assert gives_way(after(50, early, idle)) == {"idle": "default/w"}


def test_later_model_queues_behind_model_that_has_waited_for_nodes() -> None:
    """Otherwise the later model could take the capacity that is freed for them."""
    found = after(120, waiter("w", waited=200), waiter("v", waited=20))
    assert found["v"].after == ("default/w",)
    # The first model has recreated its pods, and does not wait for nodes a second time.
    again = waiter("v", waited=6, first_since=ago(10))
    assert gives_way(after(120, again, holder("idle", 3600, a=1))) == {"idle": "default/v"}


def test_batch_is_behind_services_and_causes_no_yield() -> None:
    found = decided(batch("night", waited=900), waiter("w", waited=10), holder("idle", 9000, a=1))
    assert found["night"].after == ("default/w",)
    assert gives_way(found) == {"idle": "default/w"}
    assert gives_way(decided(batch("night", waited=900), holder("idle", 9000, a=1))) == {}


def test_queued_batch_continues_if_no_model_is_ahead() -> None:
    queued = batch("night", queued=True, no_room_since=None)
    assert not decided(queued, holder("busy", None, a=1)).get("night", Turn()).after


def test_highest_priority_model_is_first() -> None:
    found = decided(waiter("old", waited=90), waiter("urgent", waited=10, priority=5))
    assert found["old"].after == ("default/urgent",)


def test_waiting_models_report_holder_of_accelerators() -> None:
    found = decided(waiter("a", waited=90), waiter("b", waited=60), holder("busy", None, a=1))
    assert found["b"].held_by == found["a"].held_by == ("default/busy",)


def test_queue_orders_services_across_namespaces() -> None:
    here, there = waiter("w"), replace(waiter("w", waited=90), owner="other/w")
    idle = replace(holder("idle", 900, a=1), owner="third/idle")
    found = {owner: turn for (owner, _), turn in turns([here, there, idle], Fleet(places(a=1)), NOW).items()}
    assert (found["other/w"].place, found["default/w"].place) == (1, 2), (
        "one name in two namespaces is two services"
    )
    assert found["default/w"].after == ("other/w",)
    assert found["third/idle"].gives_way_to == "other/w"


def test_held_by_names_model_if_workload_has_several_models() -> None:
    red, blue = (replace(holder("turns", None, a=1), model=name) for name in ("red", "blue"))
    wants = replace(waiter("turns"), model="green")
    found = turns([red, blue, wants, holder("one", None, a=1)], Fleet(places(a=3)), NOW)
    assert found["default/turns", "green"].held_by == (
        "default/one",
        "default/turns/blue",
        "default/turns/red",
    )
