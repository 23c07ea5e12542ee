"""Invariants of sleep and wake, for all events in any order and with any delay of their reports."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.gates.sleep_state import Health, SleepPolicy, SleepState
from daybreak.gates.state_machine import decide, step
from daybreak.gates.traffic import Traffic
from tests.budget import examples
from tests.property.sleep_and_wake import SleepAndWake, wishes
from tests.property.sleep_inputs import at_rest, backends, courses, traffics
from tests.property.sleepers import BEGIN

EPSILON = timedelta(milliseconds=1)
TestSleepAndWake = SleepAndWake.TestCase
TestSleepAndWake.settings = settings(max_examples=examples(120), stateful_step_count=30)


@given(courses, wishes, traffics, backends)
@settings(max_examples=examples(1000))
def test_single_step_keeps_gate_and_sleep_invariants(
    before: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health
) -> None:
    after = step(before, sleep_policy, traffic, health, BEGIN)
    if after.gate is GateState.OPEN and before.gate is not GateState.OPEN:
        assert health.answers
    if before.asleep is None and after.asleep is not None:
        assert before.phase is Phase.DRAINING
        assert before.gate is after.gate is not GateState.OPEN, "it was closed before, not just now"
        assert traffic.known
        assert traffic.acknowledged >= before.epoch
        assert traffic.held == traffic.in_flight == 0
    if traffic.held and not sleep_policy.must_sleep:
        assert after.asleep is None
        assert after.phase is not Phase.DRAINING


@given(courses, wishes, traffics, backends)
@settings(max_examples=examples(1000))
def test_state_machine_reaches_stable_state_from_any_status(
    sleep_state: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health
) -> None:
    rest = at_rest(sleep_state, sleep_policy, traffic, health)
    assert step(rest, sleep_policy, traffic, health, BEGIN) == rest
    assert sleep_state.epoch <= rest.epoch <= sleep_state.epoch + 3


@given(courses, wishes, traffics, backends)
@settings(max_examples=examples(1000))
def test_state_is_unchanged_before_next_scheduled_check(
    sleep_state: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health
) -> None:
    rest = at_rest(sleep_state, sleep_policy, traffic, health)
    pause = decide(rest, sleep_policy, traffic, health, BEGIN).look_again

    def after(span: timedelta) -> SleepState:
        return step(rest, sleep_policy, replace(traffic, idle=traffic.idle + span), health, BEGIN + span)

    if pause is None:
        assert after(timedelta(days=30)) == rest
    else:
        assert pause > timedelta(0), "it would look again and again"
        assert after(pause - EPSILON) == rest
