"""Conditions of a service behind a gateway, each case once."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from daybreak.api.common.conditions import Reason, ShortCondition
from daybreak.api.common.moments import Moments
from daybreak.api.common.unstructured import written
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase, WakeStatus
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.llmservice.status import ModelState
from daybreak.gates.sleep_policy import model_gate
from daybreak.gates.sleep_state import SleepState
from daybreak.gates.state_machine import FORCED_ASLEEP
from daybreak.gates.traffic import UNKNOWN, Traffic
from daybreak.kinds.llmservice.decide.view import view_of
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.problems.problem import Problem
from daybreak.workloads import conditions
from daybreak.workloads.observed import GatewayView
from tests.unit.llmservice.decide.scenes.services import START, World

HEARD = Traffic(known=True, acknowledged=1, routed=True)
JUST_LOST = replace(HEARD, routed=False)
UNROUTED = replace(JUST_LOST, unrouted=conditions.FINDING)
UP: ShortCondition = ("True", Reason.SERVING, "the model answers")
STARTING: ShortCondition = ("False", Reason.PROGRESSING, "it waits for a worker pod")
BROKEN: ShortCondition = ("False", Reason.MODEL_FAILED, "no such weights")


def observed(before: str, now: SleepState, traffic: Traffic) -> Observed:
    """Return a service with this previous condition Ready; if its model wakes, it wakes from sleep."""
    started = WakeStatus(depth=SleepDepth.WORKERS, start_time=written(START))
    gate = model_gate("tiny", now, None, started, ()).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    status: dict[str, Any] = {"gate": {"models": [gate]}}
    if before:
        status["conditions"] = [{"type": "Ready", "status": before}]
    world = World(gateway=GatewayView(20001, {"tiny": traffic}))
    return replace(world.observed, manifest={**world.observed.manifest, "status": status})


def ready(
    now: SleepState, traffic: Traffic, before: str, report: ShortCondition, moments: Moments | None = None
) -> ShortCondition:
    """Return the Ready condition of a service with one model, from the given value."""
    found = view_of(observed(before, now, traffic))
    answering = report[0] == "True"
    problem = None if answering else Problem(report[1], report[2], stalled=now is FAILED)
    [model] = found.models
    model = replace(model, answering=answering, problem=problem, state=ModelState.STARTING)
    return conditions.ready(replace(found, models=[model]), {"tiny": now}, moments or Moments(START))


def sleep_state(
    phase: Phase, gate: GateState, asleep: SleepDepth | None = None, reason: str = ""
) -> SleepState:
    """Return a sleep state that began at the start."""
    return SleepState(phase, START, asleep, gate, 1, reason)


AWAKE = sleep_state(Phase.AWAKE, GateState.OPEN)
"""The service has just opened its gate."""
LONG_AWAKE = replace(AWAKE, since=START - conditions.FINDING)
WAKING = sleep_state(Phase.WAKING, GateState.CLOSED)
ASLEEP = sleep_state(Phase.ASLEEP, GateState.CLOSED, SleepDepth.WORKERS)
FORCED = sleep_state(Phase.ASLEEP, GateState.FAILED, SleepDepth.WORKERS, FORCED_ASLEEP)
DRAINING = sleep_state(Phase.DRAINING, GateState.CLOSED)
FAILED = sleep_state(Phase.FAILED, GateState.FAILED, reason="no such weights")


@pytest.mark.parametrize(
    ("now", "traffic", "before", "models", "expected"),
    [
        (AWAKE, HEARD, "True", UP, ("True", Reason.SERVING)),
        (AWAKE, UNKNOWN, "True", UP, ("False", Reason.GATEWAY_NOT_REPORTING)),
        (AWAKE, UNKNOWN, "False", UP, ("False", Reason.GATEWAY_NOT_REPORTING)),
        (AWAKE, UNKNOWN, "Unknown", UP, ("Unknown", Reason.GATEWAY_NOT_REPORTING)),
        (AWAKE, UNKNOWN, "", UP, ("Unknown", Reason.GATEWAY_NOT_REPORTING)),
        (AWAKE, replace(HEARD, known=False), "True", UP, ("True", Reason.SERVING)),
        (ASLEEP, HEARD, "True", STARTING, ("True", Reason.ASLEEP)),
        (ASLEEP, UNKNOWN, "True", STARTING, ("False", Reason.GATEWAY_NOT_REPORTING)),
        (FORCED, HEARD, "True", STARTING, ("False", Reason.ASLEEP)),
        (FORCED, UNKNOWN, "True", STARTING, ("False", Reason.ASLEEP)),
        (DRAINING, HEARD, "True", UP, ("True", Reason.SERVING)),
        (WAKING, HEARD, "True", STARTING, ("True", Reason.WAKING)),
        (WAKING, HEARD, "True", UP, ("True", Reason.SERVING)),
        (WAKING, HEARD, "False", STARTING, ("False", Reason.PROGRESSING)),
        (WAKING, HEARD, "", STARTING, ("False", Reason.PROGRESSING)),
        (AWAKE, UNROUTED, "True", UP, ("True", Reason.WAKING)),
        (AWAKE, UNROUTED, "True", STARTING, ("False", Reason.PROGRESSING)),
        (AWAKE, UNROUTED, "False", UP, ("False", Reason.PROGRESSING)),
        (AWAKE, UNROUTED, "Unknown", UP, ("Unknown", Reason.PROGRESSING)),
        (AWAKE, UNROUTED, "", UP, ("Unknown", Reason.PROGRESSING)),
        (LONG_AWAKE, UNROUTED, "True", UP, ("False", Reason.BACKEND_UNREACHABLE)),
        (LONG_AWAKE, JUST_LOST, "True", UP, ("True", Reason.SERVING)),
        (LONG_AWAKE, JUST_LOST, "False", UP, ("False", Reason.BACKEND_UNREACHABLE)),
        (LONG_AWAKE, UNROUTED, "False", UP, ("False", Reason.BACKEND_UNREACHABLE)),
        (LONG_AWAKE, UNROUTED, "Unknown", UP, ("Unknown", Reason.BACKEND_UNREACHABLE)),
        (LONG_AWAKE, UNROUTED, "", UP, ("Unknown", Reason.BACKEND_UNREACHABLE)),
        (LONG_AWAKE, replace(HEARD, known=False), "False", UP, ("True", Reason.SERVING)),
        (LONG_AWAKE, UNKNOWN, "True", UP, ("False", Reason.GATEWAY_NOT_REPORTING)),
        (ASLEEP, UNROUTED, "True", STARTING, ("True", Reason.ASLEEP)),
        (DRAINING, UNROUTED, "True", UP, ("True", Reason.SERVING)),
        (FAILED, HEARD, "True", BROKEN, ("False", Reason.MODEL_FAILED)),
        (FAILED, UNKNOWN, "True", BROKEN, ("False", Reason.MODEL_FAILED)),
    ],
)
def test_ready_depends_on_gate_traffic_and_previous_status(
    now: SleepState, traffic: Traffic, before: str, models: ShortCondition, expected: Any
) -> None:
    assert ready(now, traffic, before, models)[:2] == expected


def test_ready_message_states_pending_step_or_forced_sleep() -> None:
    assert STARTING[2] in ready(WAKING, HEARD, "True", STARTING)[2]
    assert ready(FORCED, HEARD, "True", STARTING)[2] == FORCED_ASLEEP


@pytest.mark.parametrize(
    ("now", "traffic", "expected"),
    [
        (AWAKE, HEARD, None),
        (AWAKE, UNROUTED, conditions.FINDING),
        (replace(AWAKE, since=START - timedelta(seconds=4)), UNROUTED, timedelta(seconds=6)),
        (LONG_AWAKE, UNROUTED, None),
        (LONG_AWAKE, replace(JUST_LOST, unrouted=timedelta(seconds=7)), timedelta(seconds=3)),
        (WAKING, UNROUTED, None),
    ],
)
def test_recheck_is_due_when_gateways_should_have_found_backend(
    now: SleepState, traffic: Traffic, expected: timedelta | None
) -> None:
    moments = Moments(START)
    ready(now, traffic, "True", STARTING if now is WAKING else UP, moments)
    assert moments.look_again == expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (ASLEEP, ("False", Reason.RECONCILED)),
        (AWAKE, ("True", Reason.UPDATING)),
    ],
)
def test_reconciling_reports_change_only_while_awake(now: SleepState, expected: Any) -> None:
    models: ShortCondition = ("True", Reason.UPDATING, "a change is in progress")
    found = view_of(observed("True", now, HEARD))
    assert conditions.reconciling(found, {"tiny": now}, UP, models)[:2] == expected
