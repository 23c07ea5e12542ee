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
def test_the_gate_closes_whatever_the_traffic_and_the_settings(
    before: SleepState, traffic: Traffic, policy: SleepPolicy
) -> None:
    after = step(before, policy, traffic, LEAVES, NOW)
    assert (after.phase, after.gate, after.asleep) == (Phase.DRAINING, CLOSED, None)


@pytest.mark.parametrize("policy", [SLEEPS, NEVER])
def test_what_runs_ends_first_and_what_is_held_stays_held(policy: SleepPolicy) -> None:
    assert step(BEGUN, policy, STREAMING, LEAVES, NOW + MINUTE) == BEGUN
    assert step(BEGUN, policy, ASKED, LEAVES, NOW + MINUTE) == replace(GONE, since=NOW + MINUTE)


def test_a_stream_without_end_is_cut_as_at_every_end_of_a_pod() -> None:
    late = NOW + timedelta(seconds=120)
    assert step(BEGUN, NEVER, STREAMING, LEAVES, NOW + timedelta(seconds=119)) == BEGUN
    assert step(BEGUN, NEVER, STREAMING, LEAVES, late) == replace(GONE, since=late)
    assert decide(BEGUN, NEVER, STREAMING, LEAVES, NOW + MINUTE).look_again == MINUTE
    stays = replace(LEAVES, preempted=False)
    assert decide(BEGUN, NEVER, STREAMING, stays, NOW + MINUTE).look_again is None


@pytest.mark.parametrize("traffic", [UNHEARD, UNTOLD])
def test_without_word_of_every_gateway_nothing_is_cut(traffic: Traffic) -> None:
    assert step(BEGUN, NEVER, traffic, LEAVES, NOW + timedelta(hours=9)) == BEGUN


@pytest.mark.parametrize("policy", [SLEEPS, NEVER])
def test_it_stays_away_until_the_other_one_has_room(policy: SleepPolicy) -> None:
    assert step(GONE, policy, ASKED, LEAVES, NOW + MINUTE) == GONE
    assert step(GONE, policy, ASKED, STAYS, NOW + MINUTE).phase is Phase.WAKING


def test_who_never_sleeps_comes_back_for_nobody() -> None:
    assert step(GONE, NEVER, IDLE, STAYS, NOW + MINUTE).phase is Phase.WAKING
    assert step(GONE, SLEEPS, IDLE, STAYS, NOW + MINUTE).phase is Phase.ASLEEP
    assert step(ASLEEP, SLEEPS, IDLE, LEAVES, NOW) == ASLEEP


def test_called_off_it_goes_on() -> None:
    after = step(BEGUN, NEVER, STREAMING, STAYS, NOW + MINUTE)
    assert (after.phase, after.gate) == (Phase.AWAKE, OPEN)
