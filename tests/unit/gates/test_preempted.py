"""The gate of a model whose pods the scheduler would delete.

The gate closes regardless of traffic, and running requests finish. The model does not wake before the pods
that it left for are scheduled.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.sleep import SleepDepth
from daybreak.gates.sleep_state import Health, SleepPolicy, SleepState
from daybreak.gates.state_machine import decide, step
from daybreak.gates.traffic import Traffic
from tests.unit.llmservice.decide.scenes.sleep_states import (
    ASKED,
    ASLEEP,
    AWAKE,
    CLOSED,
    FAILED,
    IDLE,
    MINUTE,
    NEVER,
    NOW,
    OPEN,
    SLEEPS,
    STREAMING,
    UNHEARD,
    UNTOLD,
    UPDATING,
)

LEAVES = Health(answers=True, gives_way=True, preempted=True, drain=timedelta(minutes=2))
STAYS = Health(answers=True, drain=MINUTE)
BEGUN = SleepState(Phase.DRAINING, NOW, None, CLOSED, 5)
GONE = replace(BEGUN, phase=Phase.ASLEEP, asleep=SleepDepth.WORKERS)


@pytest.mark.parametrize("before", [AWAKE, UPDATING, FAILED])
@pytest.mark.parametrize("traffic", [ASKED, STREAMING, UNHEARD])
@pytest.mark.parametrize("policy", [SLEEPS, NEVER])
def test_gate_of_preempted_model_closes_for_any_traffic_and_policy(
    before: SleepState, traffic: Traffic, policy: SleepPolicy
) -> None:
    after = step(before, policy, traffic, LEAVES, NOW)
    assert (after.phase, after.gate, after.asleep) == (Phase.DRAINING, CLOSED, None)


@pytest.mark.parametrize("policy", [SLEEPS, NEVER])
def test_preempted_model_drains_in_flight_but_not_held_requests(policy: SleepPolicy) -> None:
    assert step(BEGUN, policy, STREAMING, LEAVES, NOW + MINUTE) == BEGUN
    assert step(BEGUN, policy, ASKED, LEAVES, NOW + MINUTE) == replace(GONE, since=NOW + MINUTE)


def test_preempted_model_sleeps_after_drain_time_despite_stream() -> None:
    late = NOW + timedelta(seconds=120)
    assert step(BEGUN, NEVER, STREAMING, LEAVES, NOW + timedelta(seconds=119)) == BEGUN
    assert step(BEGUN, NEVER, STREAMING, LEAVES, late) == replace(GONE, since=late)
    assert decide(BEGUN, NEVER, STREAMING, LEAVES, NOW + MINUTE).look_again == MINUTE
    stays = replace(LEAVES, preempted=False)
    assert decide(BEGUN, NEVER, STREAMING, stays, NOW + MINUTE).look_again is None


@pytest.mark.parametrize("traffic", [UNHEARD, UNTOLD])
def test_preempted_model_waits_for_reports_of_all_gateways(traffic: Traffic) -> None:
    assert step(BEGUN, NEVER, traffic, LEAVES, NOW + timedelta(hours=9)) == BEGUN


@pytest.mark.parametrize("policy", [SLEEPS, NEVER])
def test_preempted_model_wakes_for_request_when_preemption_ends(policy: SleepPolicy) -> None:
    assert step(GONE, policy, ASKED, LEAVES, NOW + MINUTE) == GONE
    assert step(GONE, policy, ASKED, STAYS, NOW + MINUTE).phase is Phase.WAKING


def test_preempted_model_without_sleep_wakes_without_a_request() -> None:
    assert step(GONE, NEVER, IDLE, STAYS, NOW + MINUTE).phase is Phase.WAKING
    assert step(GONE, SLEEPS, IDLE, STAYS, NOW + MINUTE).phase is Phase.ASLEEP
    assert step(ASLEEP, SLEEPS, IDLE, LEAVES, NOW) == ASLEEP


def test_gate_reopens_if_preemption_is_canceled() -> None:
    after = step(BEGUN, NEVER, STREAMING, STAYS, NOW + MINUTE)
    assert (after.phase, after.gate) == (Phase.AWAKE, OPEN)
