"""Number of replicas for the requests in progress."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from daybreak.gates.traffic import UNKNOWN, Traffic
from daybreak.kinds.modelserver.decide.autoscaling import LOOK, Scale, step
from daybreak.kinds.modelserver.reconciler import Reconciler
from tests.unit.modelserver.decision import decide
from tests.unit.modelserver.servers import ASKED, NOW, observe, pod, server

RULES: dict[str, Any] = {"maxReplicas": 5, "targetOngoingRequests": 10}
UP, DOWN = timedelta(seconds=10), timedelta(minutes=5)


def busy(requests: int) -> Traffic:
    """Return traffic with this number of requests in progress, some of them held."""
    return Traffic(known=True, held=requests // 3, in_flight=requests - requests // 3, routed=True)


def after(before: Scale, requests: int, seconds: float, **rules: Any) -> Scale:
    """Return the scale this number of seconds after the beginning."""
    spec = server(replicas=1, autoscaling=RULES | rules).spec
    return step(before, spec, busy(requests), NOW + timedelta(seconds=seconds))


def test_replicas_are_added_after_upscale_delay() -> None:
    soon = after(Scale(1), 35, 0)
    assert soon == Scale(1, 4, NOW)
    soon = after(soon, 25, 5)
    assert soon == Scale(1, 3, NOW), "as many as were wanted all the time"
    assert after(soon, 100, 9) == soon
    assert after(soon, 100, 10) == Scale(3)


def test_zero_delay_changes_replicas_at_once() -> None:
    assert after(Scale(1), 35, 0, upscaleDelay="0s") == Scale(4)
    assert after(Scale(4), 0, 0, downscaleDelay="0s") == Scale(1)


def test_short_peak_adds_no_replicas() -> None:
    soon = after(Scale(1), 35, 0)
    assert after(soon, 8, 5) == Scale(1)


def test_replicas_are_removed_after_downscale_delay() -> None:
    soon = after(Scale(5), 0, 0)
    assert soon == Scale(5, 1, NOW)
    soon = after(soon, 25, 100)
    assert soon == Scale(5, 3, NOW), "as many as the most that were wanted"
    assert after(soon, 0, 299) == soon
    assert after(soon, 0, 300) == Scale(3)


def test_short_pause_removes_no_replicas() -> None:
    soon = after(Scale(5), 0, 0)
    assert after(soon, 50, 200) == Scale(5)


def test_change_of_direction_restarts_delay() -> None:
    soon = after(Scale(3), 50, 0)
    assert soon == Scale(3, 5, NOW)
    assert after(soon, 0, 20) == Scale(3, 1, NOW + timedelta(seconds=20))


def test_replicas_are_kept_if_fewer_replicas_would_be_full() -> None:
    assert after(Scale(3), 20, 0) == Scale(3), "two would be full"
    assert after(Scale(3), 18, 0) == Scale(3, 2, NOW)


def test_replicas_are_not_removed_if_traffic_is_unknown() -> None:
    spec = server(replicas=1, autoscaling=RULES).spec
    assert step(Scale(5, 1, NOW), spec, UNKNOWN, NOW + DOWN) == Scale(5)


def test_replicas_are_added_if_incomplete_traffic_report_suffices() -> None:
    spec = server(replicas=1, autoscaling=RULES).spec
    some = replace(busy(50), known=False)
    soon = step(Scale(1), spec, some, NOW)
    assert soon == Scale(1, 5, NOW)
    assert step(soon, spec, some, NOW + UP) == Scale(5)


def test_replicas_stay_between_minimum_and_maximum_of_spec() -> None:
    assert after(Scale(9), 1000, 0) == Scale(5)
    assert after(Scale(1), 1000, 0).desired == 5
    spec = server(replicas=2, autoscaling=RULES).spec
    assert step(Scale(1), spec, busy(0), NOW) == Scale(2), "replicas is the fewest"


def test_default_target_is_limited_by_max_ongoing_requests() -> None:
    def desired(requests: int, **more: Any) -> int | None:
        spec = server(replicas=1, autoscaling={"maxReplicas": 9}, **more).spec
        return step(Scale(1), spec, busy(requests), NOW).desired

    assert desired(64) == 4
    assert desired(64, maxOngoingRequests=8) == 8


@given(st.lists(st.tuples(st.integers(0, 80), st.integers(1, 200)), max_size=60), st.integers(1, 3))
def test_replicas_stay_in_bounds_and_respect_delays_for_any_traffic(
    history: list[tuple[int, int]], least: int
) -> None:
    spec = server(replicas=least, autoscaling=RULES).spec
    state, moment, turned = Scale(least), NOW, NOW
    for requests, seconds in history:
        moment += timedelta(seconds=seconds)
        after = step(state, spec, busy(requests), moment)
        assert least <= after.replicas <= 5
        if after.replicas != state.replicas:
            assert moment - turned >= (UP if after.replicas > state.replicas else DOWN)
            turned = moment
        state = after


@given(st.integers(0, 200), st.integers(1, 5))
def test_replicas_become_stable_and_sufficient_for_any_constant_traffic(requests: int, first: int) -> None:
    state, moment = Scale(first), NOW
    spec = server(replicas=1, autoscaling=RULES).spec
    for _ in range(4):
        state = step(state, spec, busy(requests), moment)
        moment += DOWN
    assert state == Scale(state.replicas)
    assert state.replicas == 5 or 10 * state.replicas >= requests
    assert state.replicas == 1 or requests > 0.9 * 10 * (state.replicas - 1)


def test_scaling_is_recorded_in_status_and_rechecked() -> None:
    spec = {"autoscaling": RULES}
    one = server(**spec)
    many = replace(ASKED, in_flight=45)
    first = observe(None, pod(one), traffic=many, spec=spec)
    decision = decide(first)
    assert decision.status.autoscaling is not None
    assert (decision.status.autoscaling.current_replicas, decision.status.autoscaling.desired_replicas) == (
        1,
        5,
    )
    assert decision.requeue_after is not None
    assert decision.requeue_after <= LOOK
    status = decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    later = decide(observe(status, pod(one), traffic=many, spec=spec, now=NOW + UP))
    assert later.status.autoscaling is not None
    assert later.status.autoscaling.current_replicas == 5


def test_reconcile_is_due_only_if_the_number_of_replicas_changed() -> None:
    spec = {"autoscaling": RULES}
    one = server(**spec)
    decision = decide(observe(None, pod(one), traffic=replace(ASKED, in_flight=5), spec=spec))
    status = decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    is_due = partial(Reconciler.is_due, cast(Reconciler, None))
    assert is_due(observe(None, pod(one), spec=spec), cast(Any, None), decision.status)
    assert not is_due(observe(status, pod(one), spec=spec), cast(Any, None), decision.status)


def test_server_without_autoscaling_has_no_autoscaling_status() -> None:
    many = replace(ASKED, in_flight=45)
    assert decide(observe(None, pod(server()), traffic=many)).status.autoscaling is None
