"""The sleep state as the status keeps it, the policy from the spec, and the hold time of requests."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase, WakeStatus
from daybreak.api.gates.sleep import Hold, SleepDepth, State
from daybreak.gates.sleep_policy import (
    REASON_LIMIT,
    backends_before,
    client_reason,
    depth,
    gates_before,
    hold_seconds,
    model_gate,
    node_wait,
    overdue,
    phase,
    sleep_policy,
    sleep_state_of,
)
from daybreak.gates.sleep_state import SleepPolicy, SleepState
from daybreak.gates.state_machine import start
from tests.unit.llmservice.decide.scenes.services import START, World, manifest, service
from tests.unit.llmservice.decide.scenes.sleeping import view

GATE = {
    "name": "tiny",
    "state": "Closed",
    "epoch": 7,
    "holdSeconds": 60,
    "reason": "why",
    "phase": "Asleep",
    "phaseTransitionTime": "2026-11-21T11:00:00Z",
    "sleepDepth": "Workers",
}
STATUS = {"gate": {"port": 20001, "models": [GATE]}}


def policy(world: World, spec: dict[str, Any]) -> SleepPolicy:
    """Return the sleep policy of a service with this spec."""
    requested = service(**spec).spec
    return sleep_policy(world.observed.manifest, requested.sleep, requested.state, None, world.observed.now)


def status_of(gate: Any) -> dict[str, Any]:
    """Return a status with this one gate."""
    return {"gate": {"port": 20001, "models": [gate]}}


def test_sleep_state_survives_round_trip_through_status() -> None:
    before = sleep_state_of(gates_before(STATUS)["tiny"], START)
    assert (before.phase, before.asleep, before.gate) == (Phase.ASLEEP, SleepDepth.WORKERS, GateState.CLOSED)
    assert (before.epoch, before.reason, before.since.hour) == (7, "why", 11)
    written = model_gate("tiny", before, Hold(timeout="60s"), None, ())
    assert written.model_dump(mode="json", by_alias=True, exclude_none=True) == GATE


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"gate": "open"},
        {"gate": {"port": 20001}},
        {"gate": {"port": 20001, "models": "tiny"}},
        status_of({**GATE, "phase": "Strange"}),
        status_of({**GATE, "state": "Ajar"}),
        status_of({key: value for key, value in GATE.items() if key != "epoch"}),
        status_of("tiny"),
    ],
)
def test_unreadable_gate_status_leads_to_initial_state(status: dict[str, Any]) -> None:
    assert gates_before(status) == {}
    world = World(gateway=view())
    observed = replace(world.observed, manifest={**world.observed.manifest, "status": status})
    assert observed.sleep_states == {"tiny": start(START, SleepPolicy(None))}


def test_unreadable_gate_does_not_affect_other_gates() -> None:
    assert set(gates_before({"gate": {"models": [{**GATE, "epoch": "x"}, {**GATE, "name": "other"}]}})) == {
        "other"
    }


def test_phase_starts_now_if_transition_time_is_unreadable() -> None:
    gate = gates_before(status_of({**GATE, "phaseTransitionTime": "yesterday"}))["tiny"]
    assert sleep_state_of(gate, START).since == START


W, C = SleepDepth.WORKERS, SleepDepth.CLUSTER


@pytest.mark.parametrize(
    ("depths", "expected"),
    [([], None), ([None], None), ([W], W), ([C], C), ([W, C], W), ([C, C], C), ([None, C], None)],
)
def test_service_sleeps_as_deep_as_its_least_deep_model(
    depths: list[SleepDepth | None], expected: SleepDepth | None
) -> None:
    states = [SleepState(Phase.ASLEEP, START, each, GateState.CLOSED, 1) for each in depths]
    assert depth(states) is expected


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ("Awake", "Awake"),
        ("Awake Asleep", "Awake"),
        ("Awake Draining", "Awake"),
        ("Asleep Draining", "Draining"),
        ("Asleep Asleep", "Asleep"),
        ("Awake Waking", "Waking"),
        ("Waking Updating", "Updating"),
        ("Awake Failed Updating", "Failed"),
    ],
)
def test_service_phase_is_derived_from_phases_of_its_models(phases: str, expected: str) -> None:
    states = [SleepState(Phase(each), START, None, GateState.OPEN, 1) for each in phases.split()]
    assert phase(states) == expected


@pytest.mark.parametrize(
    ("spec", "annotation", "forced"),
    [
        ({}, None, None),
        ({"state": "Awake"}, None, State.AWAKE),
        ({"state": "Awake"}, "Asleep", State.ASLEEP),
        ({"state": "Asleep"}, "Awake", State.AWAKE),
        ({}, "Asleep", State.ASLEEP),
        ({"state": "Asleep"}, "asleep, please", State.ASLEEP),
    ],
)
def test_valid_state_annotation_overrides_spec_state(
    spec: dict[str, Any], annotation: str | None, forced: State | None
) -> None:
    llm = manifest(**spec)
    if annotation is not None:
        llm["metadata"]["annotations"] = {"daybreak.dev/state": annotation}
    world = World(llm)
    assert policy(world, spec).forced is forced


def test_schedule_keeps_model_awake_only_within_its_window() -> None:
    window = {"start": "0 11 * * *", "duration": "2h", "timeZone": "UTC"}
    spec: dict[str, Any] = {"sleep": {"schedule": [window]}}
    world = World(manifest(**spec))
    assert policy(world, spec).window
    spec["sleep"]["schedule"][0]["start"] = "0 13 * * *"
    assert not policy(world, spec).window


@pytest.mark.parametrize(
    ("p95", "expected"), [(None, 900), (0, 300), (150, 300), (151, 302), (900, 1800), (9000, 1800)]
)
def test_hold_time_is_twice_p95_of_wakes_within_bounds(p95: int | None, expected: int) -> None:
    wake_history = WakeStatus(depth=SleepDepth.WORKERS, start_time="2026-11-21T11:00:00Z", p95_seconds=p95)
    assert hold_seconds(wake_history) == expected
    assert hold_seconds(None) == 900


@pytest.mark.parametrize(("timeout", "expected"), [("Auto", 900), ("90s", 90), ("1h30m", 5400), ("1ms", 1)])
def test_model_gate_has_state_hold_seconds_and_limited_reason(timeout: str, expected: int) -> None:
    sleep_state = SleepState(Phase.FAILED, START, None, GateState.FAILED, 4, "w" * 5000)
    gate = model_gate("tiny", sleep_state, Hold(timeout=timeout), None, ())
    assert (gate.state, gate.epoch, gate.adapters, gate.hold_seconds) == ("Failed", 4, None, expected)
    assert len(gate.reason or "") == REASON_LIMIT
    opened = model_gate("tiny", replace(sleep_state, reason=""), None, None, ["style"])
    assert (opened.reason, opened.adapters) == (None, ["style"])


def test_invalid_backends_of_status_are_ignored() -> None:
    assert backends_before({"gate": {"backends": [{"cluster": "a"}, {}, "b"]}}) == ["a"]


@pytest.mark.parametrize(
    ("wake", "left", "late"),
    [
        (None, None, False),
        ({"depth": "Workers", "startTime": "2026-11-21T11:59:30Z"}, 30, False),
        ({"depth": "Workers", "startTime": "2026-11-21T11:59:00Z"}, None, True),
        ({"depth": "Workers", "startTime": "2026-11-21T11:00:00Z", "failed": True}, None, True),
        ({"depth": "Workers", "startTime": "2026-11-21T11:59:30Z", "seconds": 20}, None, False),
    ],
)
def test_wake_waits_for_nodes_until_hold_time_ends(wake: Any, left: int | None, late: bool) -> None:
    gate = gates_before(status_of({**GATE, "wake": wake}))["tiny"]
    assert node_wait(gate, START) == (None if left is None else timedelta(seconds=left))
    assert overdue(gate, START) is late
    assert node_wait(None, START) is None


def test_reasons_for_clients_are_joined_and_truncated() -> None:
    assert client_reason(["one", "two"]) == "one; two"
    assert len(client_reason(["x" * 5000])) == REASON_LIMIT
