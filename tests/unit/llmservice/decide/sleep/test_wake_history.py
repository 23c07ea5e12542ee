"""Recorded durations of wakes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import pairwise

import pytest

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase, WakePhases, WakeStatus
from daybreak.api.gates.sleep import SleepDepth
from daybreak.gates.sleep_policy import HOLD_UNKNOWN, hold_seconds
from daybreak.gates.sleep_state import SleepState
from daybreak.gates.wake_history import RECENT, percentile, wake_history
from daybreak.kinds.llmservice.decide.snapshot import Snapshot
from daybreak.kinds.llmservice.decide.wake_timeline import wake_timeline
from tests.unit.llmservice.decide.scenes.services import START
from tests.unit.llmservice.decide.scenes.waking import made, snapshot

ASLEEP = SleepState(Phase.ASLEEP, START, SleepDepth.CLUSTER, GateState.CLOSED, 3)
WAKING = SleepState(Phase.WAKING, START, None, GateState.CLOSED, 3)
OPEN = SleepState(Phase.AWAKE, START, None, GateState.OPEN, 4)
FAILED = SleepState(Phase.FAILED, START, None, GateState.FAILED, 4, "no such weights")
UNREADABLE = replace(WAKING, phase=Phase.FAILED)
"""State while the spec is unreadable: the gate does not change."""
BEGUN = WakeStatus(depth=SleepDepth.CLUSTER, start_time="2026-11-21T12:00:00Z")


def entry(
    before: WakeStatus | None, was: SleepState, now: SleepState, observed: Snapshot
) -> WakeStatus | None:
    """Return the history after a decision."""
    steps = partial(wake_timeline, observed, observed.service.spec.models[0])
    return wake_history(before, was, now, observed.now, steps)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([7], 50, 7),
        ([7], 95, 7),
        ([3, 1, 2], 50, 2),
        ([4, 3, 2, 1], 50, 2),
        ([1, 2, 3, 4], 95, 4),
        (range(1, 21), 95, 19),
        (range(1, 21), 50, 10),
        ([5, 5, 5, 100], 50, 5),
    ],
)
def test_percentile_is_nearest_rank_of_values(values: Sequence[int], percent: int, expected: int) -> None:
    assert percentile(list(values), percent) == expected


def test_wake_record_starts_when_service_leaves_sleep() -> None:
    past = WakeStatus(
        depth=SleepDepth.WORKERS,
        start_time="2026-11-20T12:00:00Z",
        seconds=20,
        recent=[20],
        p50_seconds=20,
        p95_seconds=20,
    )
    now = replace(WAKING, since=START + timedelta(seconds=5))
    found = entry(past, ASLEEP, now, snapshot())
    assert found is not None
    assert (found.depth, found.start_time) == (SleepDepth.CLUSTER, "2026-11-21T12:00:05Z")
    assert (found.seconds, found.phases) == (None, None)
    assert (found.recent, found.p50_seconds, found.p95_seconds) == ([20], 20, 20)


def test_wake_record_ends_when_gate_opens() -> None:
    pods = [
        made("head", None, created=2, scheduled=3, ready=20),
        made("one", "tiny", created=21, scheduled=25, ready=60),
        made("two", "tiny", created=21, scheduled=30, ready=65),
    ]
    found = entry(BEGUN, WAKING, OPEN, snapshot(*pods, serve="UPDATING"))
    assert found is not None
    assert found.seconds == 90
    assert found.phases is not None
    assert found.phases.model_dump() == {
        "objects": 2,
        "head_ready": 20,
        "worker_scheduled": 25,
        "worker_ready": 60,
        "engine_started": 90,
        "first_token": 90,
    }, "one replica is enough for an answer, and an engine that has answered runs"


def test_existing_head_takes_zero_seconds_and_unseen_steps_are_absent() -> None:
    head = made("head", None, created=-900, scheduled=-899, ready=-880)
    found = entry(BEGUN, WAKING, OPEN, snapshot(head))
    assert found is not None
    assert found.phases is not None
    assert (found.phases.objects, found.phases.head_ready) == (0, 0)
    assert (found.phases.worker_scheduled, found.phases.worker_ready) == (None, None)


def test_wake_steps_are_recorded_on_completion() -> None:
    assert entry(BEGUN, WAKING, WAKING, snapshot()) == BEGUN
    observed = snapshot(made("head", None, created=2, scheduled=3, ready=20), seconds=25)
    found = entry(BEGUN, WAKING, WAKING, observed)
    assert found is not None
    assert (found.seconds, found.recent) == (None, [])
    assert found.phases == WakePhases(objects=2, head_ready=20)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param([WAKING, FAILED, OPEN], id="it answers at once"),
        pytest.param([WAKING, FAILED, WAKING, OPEN], id="it begins anew first"),
        pytest.param([FAILED, WAKING, OPEN], id="an operator that knows of no failed wakes wrote the first"),
        pytest.param([UNREADABLE, WAKING, OPEN], id="the spec could not be read"),
        pytest.param(
            [WAKING, replace(FAILED, phase=Phase.DRAINING), WAKING, OPEN], id="a person had it sleep"
        ),
    ],
)
def test_failed_wake_is_excluded_from_percentiles(way: Sequence[SleepState]) -> None:
    past = BEGUN.model_copy(update={"recent": [20], "p50_seconds": 20, "p95_seconds": 20})
    found: WakeStatus | None = past
    for was, now in pairwise(way):
        found = entry(found, was, now, snapshot(seconds=18_000))
    assert found is not None
    assert (found.seconds, found.failed) == (18_000, True)
    assert (found.recent, found.p50_seconds, found.p95_seconds) == ([20], 20, 20)
    again = entry(found, ASLEEP, WAKING, snapshot())
    assert again is not None
    assert (again.failed, again.recent) == (None, [20]), "the next one begins anew"


def test_failed_first_wake_leaves_percentiles_empty() -> None:
    found = entry(entry(BEGUN, WAKING, FAILED, snapshot()), FAILED, OPEN, snapshot(seconds=18_000))
    assert found is not None
    assert (found.recent, found.p50_seconds, found.p95_seconds) == ([], None, None)
    assert hold_seconds(found) == HOLD_UNKNOWN


def test_number_of_remembered_wakes_is_limited() -> None:
    found = entry(BEGUN.model_copy(update={"recent": [1] * RECENT}), WAKING, OPEN, snapshot())
    assert found is not None
    assert found.recent == [1] * (RECENT - 1) + [90]
    assert (found.p50_seconds, found.p95_seconds) == (1, 1)


@pytest.mark.parametrize(
    ("was", "now"),
    [(WAKING, WAKING), (OPEN, OPEN), (OPEN, replace(OPEN, phase=Phase.DRAINING, gate=GateState.CLOSED))],
)
def test_wake_record_is_unchanged_unless_wake_starts_or_ends(was: SleepState, now: SleepState) -> None:
    assert entry(BEGUN, was, now, snapshot()) == BEGUN


def test_first_start_and_interrupted_drain_are_not_recorded_as_wakes() -> None:
    assert entry(None, WAKING, OPEN, snapshot()) is None
    done = BEGUN.model_copy(update={"seconds": 9})
    assert entry(done, WAKING, OPEN, snapshot()) is done
