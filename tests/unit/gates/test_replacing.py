"""The gate of a model whose pods are replaced: it closes, running requests finish, and the model wakes."""

from dataclasses import replace
from datetime import timedelta

import pytest

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.sleep import SleepDepth
from daybreak.gates.sleep_state import Health, SleepPolicy, SleepState
from daybreak.gates.state_machine import FORCED_ASLEEP, step
from daybreak.gates.traffic import Traffic
from tests.unit.llmservice.decide.scenes.sleep_states import (
    ASKED,
    ASLEEP,
    ASLEEP_FORCED,
    AWAKE,
    CLOSED,
    DRAINING,
    DRAINING_FORCED,
    FAILED,
    IDLE,
    IN_WINDOW,
    KEPT_ASLEEP,
    LONG_AGO,
    MINUTE,
    NEVER,
    NOW,
    OPEN,
    SLEEPS,
    STREAMING,
    UNHEARD,
    UNTOLD,
    UPDATING,
    WAKING,
    sleep_state,
)

GOES = Health(answers=True, replaces=True, drain=timedelta(minutes=2))
STAYS = Health(answers=True, drain=MINUTE)
STARTS = Health(answers=False, drain=MINUTE)
BEGUN = SleepState(Phase.REPLACING, NOW, None, CLOSED, 5)
GONE = replace(BEGUN, asleep=SleepDepth.CLUSTER)


@pytest.mark.parametrize("before", [AWAKE, UPDATING, WAKING, FAILED])
@pytest.mark.parametrize("traffic", [IDLE, ASKED, STREAMING, UNHEARD])
def test_replacement_closes_gate_for_any_traffic(before: SleepState, traffic: Traffic) -> None:
    after = step(before, NEVER, traffic, GOES, NOW)
    assert (after.phase, after.gate, after.asleep, after.since) == (Phase.REPLACING, CLOSED, None, NOW)
    assert after.epoch == before.epoch + (before.gate is not CLOSED)


def test_replacement_does_not_drain_model_that_has_never_answered() -> None:
    starts = replace(GOES, answers=False)
    assert step(WAKING, NEVER, STREAMING, starts, NOW) == replace(GONE, epoch=WAKING.epoch)
    assert step(WAKING, NEVER, UNTOLD, starts, NOW).asleep is None, "unless a gateway lets somebody through"


@pytest.mark.parametrize("traffic", [STREAMING, UNHEARD, UNTOLD])
def test_replacement_waits_for_requests_in_flight_and_gateway_reports(traffic: Traffic) -> None:
    assert step(BEGUN, NEVER, traffic, GOES, NOW + MINUTE) == BEGUN


def test_held_request_does_not_delay_replacement() -> None:
    assert step(BEGUN, SLEEPS, ASKED, GOES, NOW + MINUTE) == GONE


def test_replacement_continues_after_drain_time_despite_stream() -> None:
    assert step(BEGUN, NEVER, STREAMING, GOES, NOW + timedelta(seconds=119)) == BEGUN
    assert step(BEGUN, NEVER, STREAMING, GOES, NOW + timedelta(seconds=120)) == GONE


def test_replacement_waits_without_limit_for_gateway_reports() -> None:
    assert step(BEGUN, NEVER, UNTOLD, GOES, NOW + timedelta(hours=9)) == BEGUN
    assert step(BEGUN, NEVER, UNHEARD, GOES, NOW + timedelta(hours=9)) == BEGUN


def test_model_wakes_without_request_after_replacement() -> None:
    assert step(GONE, SLEEPS, ASKED, GOES, NOW + MINUTE) == GONE
    after = step(GONE, SLEEPS, IDLE, STARTS, NOW + MINUTE)
    assert (after.phase, after.gate, after.asleep, after.epoch) == (Phase.WAKING, CLOSED, None, GONE.epoch)


def test_gate_reopens_if_replacement_is_canceled() -> None:
    after = step(BEGUN, SLEEPS, ASKED, STAYS, NOW + MINUTE)
    assert (after.phase, after.gate, after.epoch) == (Phase.AWAKE, OPEN, BEGUN.epoch + 1)


def test_sleeping_model_releases_cluster_and_stays_asleep() -> None:
    after = step(ASLEEP, SLEEPS, ASKED, GOES, NOW)
    assert after == replace(ASLEEP, asleep=SleepDepth.CLUSTER)
    assert step(after, SLEEPS, IDLE, STARTS, NOW) == replace(after, asleep=SleepDepth.CLUSTER)


def test_draining_model_falls_asleep_unless_a_request_is_held() -> None:
    after = step(DRAINING, SLEEPS, IDLE, GOES, NOW)
    assert (after.phase, after.asleep) == (Phase.ASLEEP, SleepDepth.WORKERS)
    assert step(DRAINING, SLEEPS, ASKED, GOES, NOW).phase is Phase.REPLACING


def test_state_asleep_during_replacement_puts_model_to_sleep() -> None:
    closed = step(BEGUN, KEPT_ASLEEP, IDLE, GOES, NOW)
    assert (closed.gate, closed.reason) == (GateState.FAILED, FORCED_ASLEEP)
    after = step(GONE, KEPT_ASLEEP, IDLE, STARTS, NOW)
    assert (after.phase, after.asleep, after.gate) == (Phase.ASLEEP, SleepDepth.CLUSTER, GateState.FAILED)


@pytest.mark.parametrize("before", [ASLEEP, GONE])
def test_state_asleep_during_replacement_rejects_requests(before: SleepState) -> None:
    after = step(before, KEPT_ASLEEP, ASKED, GOES, NOW)
    assert (after.phase, after.asleep) == (before.phase, SleepDepth.CLUSTER)
    assert (after.gate, after.reason) == (GateState.FAILED, FORCED_ASLEEP)
    assert after.epoch == before.epoch + 1


def test_release_from_state_asleep_during_a_replacement_holds_requests() -> None:
    after = step(ASLEEP_FORCED, SLEEPS, IDLE, GOES, NOW)
    assert (after.phase, after.asleep) == (Phase.ASLEEP, SleepDepth.CLUSTER)
    assert (after.gate, after.reason) == (CLOSED, "")


def test_open_gate_of_a_sleeping_status_closes_during_a_replacement() -> None:
    before = sleep_state(Phase.ASLEEP, OPEN, asleep=SleepDepth.WORKERS)
    assert step(before, SLEEPS, IDLE, GOES, NOW).gate is CLOSED


@pytest.mark.parametrize(
    ("before", "policy"), [(DRAINING, NEVER), (DRAINING, IN_WINDOW), (DRAINING_FORCED, SLEEPS)]
)
def test_draining_gate_does_not_open_for_a_replacement(before: SleepState, policy: SleepPolicy) -> None:
    after = step(before, policy, IDLE, GOES, NOW)
    assert (after.phase, after.gate, after.asleep) == (Phase.REPLACING, CLOSED, None)


def test_gate_stays_closed_if_canceled_replacement_is_preempted() -> None:
    preempted = replace(STAYS, preempted=True)
    after = step(BEGUN, SLEEPS, IDLE, preempted, NOW + MINUTE)
    assert (after.phase, after.gate, after.epoch) == (Phase.DRAINING, CLOSED, BEGUN.epoch)
    after = step(GONE, NEVER, IDLE, replace(STARTS, preempted=True), NOW + MINUTE)
    assert (after.phase, after.gate, after.asleep) == (Phase.ASLEEP, CLOSED, SleepDepth.CLUSTER)


def test_replacing_phase_starts_when_replacement_begins() -> None:
    begun = step(AWAKE, NEVER, STREAMING, GOES, NOW)
    assert (AWAKE.since, begun.since) == (LONG_AGO, NOW)
