"""The course as the status keeps it, what the person wants, and how long requests are held."""

from dataclasses import replace
from typing import Any

import pytest

from daybreak.api.gates.gate_status import GateState, Phase, WakeStatus
from daybreak.api.gates.sleep import Hold, SleepDepth, State
from daybreak.gates.sleep_policy import (
    REASON_LIMIT,
    gate_status,
    hold_seconds,
    kept_gate,
    sleep_policy,
    sleep_state_before,
    sleep_state_or_start,
    told_to_clients,
    wake_under_way,
    wakes_before,
)
from daybreak.gates.state_machine import SleepPolicy, SleepState, start
from tests.unit.llmservice.decide.scenes import START, World, manifest, service

GATE = {"state": "Closed", "epoch": 7, "port": 20001, "holdSeconds": 60, "reason": "why"}
STATUS = {"phase": "Asleep", "phaseSince": "2026-11-21T11:00:00Z", "asleep": "Workers", "gate": GATE}


def policy(world: World, spec: dict[str, Any]) -> SleepPolicy:
    """What the person wants of a service with this spec."""
    asked = service(**spec).spec
    return sleep_policy(world.seen.manifest, asked.sleep, asked.state, world.seen.now)


def test_what_is_written_is_read_back() -> None:
    before = sleep_state_before(STATUS, START)
    assert before is not None
    assert (before.phase, before.asleep, before.gate) == (Phase.ASLEEP, SleepDepth.WORKERS, GateState.CLOSED)
    assert (before.epoch, before.reason, before.since.hour) == (7, "why", 11)


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"phase": "Awake"},
        {"gate": GATE},
        {**STATUS, "phase": "Strange"},
        {**STATUS, "gate": {**GATE, "state": "Ajar"}},
        {**STATUS, "gate": "open"},
    ],
)
def test_what_does_not_say_it_is_the_beginning(status: dict[str, Any]) -> None:
    assert sleep_state_before(status, START) is None
    world = World()
    seen = replace(world.seen, manifest={**world.seen.manifest, "status": status})
    assert sleep_state_or_start(seen.status, seen.now) == start(START)


def test_without_a_time_the_phase_begins_now() -> None:
    before = sleep_state_before({**STATUS, "phaseSince": "yesterday"}, START)
    assert before is not None
    assert before.since == START


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
def test_who_forces_it(spec: dict[str, Any], annotation: str | None, forced: State | None) -> None:
    llm = manifest(**spec)
    if annotation is not None:
        llm["metadata"]["annotations"] = {"daybreak.dev/state": annotation}
    world = World(llm)
    assert policy(world, spec).forced is forced


def test_the_schedule_keeps_it_awake() -> None:
    window = {"start": "0 11 * * *", "duration": "2h", "timeZone": "UTC"}
    spec: dict[str, Any] = {"sleep": {"schedule": [window]}}
    world = World(manifest(**spec))
    assert policy(world, spec).window
    spec["sleep"]["schedule"][0]["start"] = "0 13 * * *"
    assert not policy(world, spec).window


@pytest.mark.parametrize(
    ("p95", "expected"), [(None, 900), (0, 300), (150, 300), (151, 302), (900, 1800), (9000, 1800)]
)
def test_held_for_twice_what_nearly_every_wake_took(p95: int | None, expected: int) -> None:
    wake_history = WakeStatus(depth=SleepDepth.WORKERS, started_at="2026-11-21T11:00:00Z", p95_seconds=p95)
    assert hold_seconds(wake_history) == expected
    assert hold_seconds(None) == 900


@pytest.mark.parametrize(("timeout", "expected"), [("Auto", 900), ("90s", 90), ("1h30m", 5400), ("1ms", 1)])
def test_the_gate_as_gateways_read_it(timeout: str, expected: int) -> None:
    sleep_state = SleepState(Phase.FAILED, START, None, GateState.FAILED, 4, "w" * 5000)
    gate = gate_status(sleep_state, Hold(timeout=timeout), 20005, "", None, ["tiny"])
    assert (gate.state, gate.epoch, gate.port, gate.hold_seconds) == ("Failed", 4, 20005, expected)
    assert gate.cluster is None
    assert len(gate.reason or "") == REASON_LIMIT
    opened = gate_status(replace(sleep_state, reason=""), None, 20005, "chat-aaaaa", None, ["tiny"])
    assert (opened.cluster, opened.reason, opened.models) == ("chat-aaaaa", None, ["tiny"])


def test_a_status_of_another_form_reads_as_nothing() -> None:
    assert kept_gate({}) is None
    assert kept_gate({"gate": {**GATE, "port": "http"}}) is None
    kept = kept_gate({"gate": GATE})
    assert kept is not None
    assert kept.epoch == 7
    assert wakes_before({"wake": {"depth": "Ocean"}}) is None


@pytest.mark.parametrize(
    ("wake", "expected"),
    [
        (None, False),
        ({"depth": "Ocean"}, False),
        ({"depth": "Workers", "startedAt": "2026-11-21T12:00:00Z"}, True),
        ({"depth": "Workers", "startedAt": "2026-11-21T12:00:00Z", "failed": True}, True),
        ({"depth": "Workers", "startedAt": "2026-11-21T12:00:00Z", "seconds": 40}, False),
    ],
)
def test_a_wake_goes_on_until_it_has_taken_some_time(wake: Any, expected: bool) -> None:
    assert wake_under_way({"wake": wake}) is expected


def test_clients_are_told_everything_up_to_a_limit() -> None:
    assert told_to_clients(["one", "two"]) == "one; two"
    assert len(told_to_clients(["x" * 5000])) == REASON_LIMIT
