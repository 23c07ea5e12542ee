"""Status changes that cause an event."""

from itertools import pairwise
from typing import Any

import pytest

from daybreak.problems.events import transitions


def status(**conditions: str) -> dict[str, Any]:
    """Return a status with conditions given as `Type="True Reason"`."""
    split = {kind: text.split() for kind, text in conditions.items()}
    return {
        "conditions": [
            {"type": kind, "status": words[0], "reason": words[1], "message": "m"}
            for kind, words in split.items()
        ]
    }


NONE: list[tuple[str, str, bool]] = []


def gates(*models: dict[str, Any]) -> Any:
    """Return a status with these gates."""
    return {"gate": {"models": [{"name": f"m{number}", **model} for number, model in enumerate(models)]}}


WAKING = gates({"wake": {"depth": "Workers"}})


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, status(Ready="Unknown Progressing", Stalled="False Reconciled"), NONE),
        (
            {},
            status(Ready="False ObjectRejected", Stalled="True ObjectRejected"),
            [("Stalled", "ObjectRejected", True)],
        ),
        (
            status(Ready="Unknown Progressing"),
            status(Ready="True Serving"),
            [("Ready", "Serving", False)],
        ),
        (status(Ready="True Serving"), status(Ready="True Serving"), NONE),
        (
            status(Ready="True Serving"),
            status(Ready="False ProbeFailed"),
            [("Ready", "ProbeFailed", True)],
        ),
        (status(Ready="False ProbeFailed"), status(Ready="False ModelFailed"), NONE),
        (status(Ready="False ProbeFailed"), status(Ready="True Serving"), [("Ready", "Serving", False)]),
        (status(Stalled="True A"), status(Stalled="True B"), [("Stalled", "B", True)]),
        (status(Stalled="True A"), status(Stalled="False Reconciled"), [("Stalled", "Reconciled", False)]),
        ({}, status(Schedulable="False NoNodeFits"), [("Schedulable", "NoNodeFits", True)]),
        ({}, status(Schedulable="True NodesFit"), NONE),
        (status(Reconciling="True A"), status(Reconciling="False B"), NONE),
    ],
)
def test_condition_changes_cause_expected_events(
    before: Any, after: Any, expected: list[tuple[str, str, bool]]
) -> None:
    assert [(found.action, found.reason, found.warning) for found in transitions(before, after)] == expected


@pytest.mark.parametrize(
    ("ended", "note"),
    [
        (
            {"seconds": 40, "p50Seconds": 30, "p95Seconds": 60},
            "awake after 40 s; half of the recent wakes took 30 s or less",
        ),
        ({"seconds": 18_000, "failed": True}, "awake, after requests had been rejected during the wake"),
    ],
)
def test_end_of_wake_causes_one_event(ended: dict[str, Any], note: str) -> None:
    awake = gates({"wake": {"depth": "Workers", **ended}})
    assert [(found.action, found.note) for found in transitions(WAKING, awake)] == [("Wake", note)]
    assert transitions(awake, awake) == []


def test_event_names_model_if_service_has_several() -> None:
    def notes(before: Any, after: Any) -> list[str]:
        return [found.note for found in transitions(before, after)]

    awake, sleeping = gates({}, {}), gates({}, {"sleepDepth": "Workers"})
    assert notes(awake, sleeping) == ["model m1: the workers are released; a request wakes it"]
    assert notes(sleeping, awake) == ["model m1: waking from sleep at depth Workers"]
    assert notes(gates({}), gates({"sleepDepth": "Cluster"})) == [
        "the whole Ray cluster is released; a request wakes it"
    ]
    assert notes(sleeping, sleeping) == []


def rollout(phase: str, revision: str, **more: str) -> Any:
    """Return a status with a rollout."""
    return {"rollout": {"phase": phase, "currentRevision": revision, **more}}


ONE = rollout("Complete", "chat-1", lastSuccessfulRevision="chat-1")
HELD = rollout(
    "Progressing",
    "chat-1",
    targetRevision="chat-2",
    lastSuccessfulRevision="chat-1",
    strategy="Replace",
    reason="no room",
)
STARTS = rollout(
    "Progressing", "chat-2", lastSuccessfulRevision="chat-1", strategy="Replace", reason="no room"
)


@pytest.mark.parametrize(
    ("before", "after", "reported"),
    [
        (ONE, HELD, [("Replace", "chat-2 is rolled out by Replace: no room")]),
        (HELD, STARTS, []),
        (
            {"rollout": {**HELD["rollout"], "phase": "Paused"}},
            HELD,
            [("Replace", "chat-2 is rolled out by Replace: no room")],
        ),
        (
            STARTS,
            rollout("Complete", "chat-2", lastSuccessfulRevision="chat-2"),
            [("RolledOut", "chat-2 answers")],
        ),
        (
            rollout("RollingBack", "chat-1", lastSuccessfulRevision="chat-1", failedRevision="chat-2"),
            rollout("RolledBack", "chat-1", lastSuccessfulRevision="chat-1", failedRevision="chat-2"),
            [("RolledBack", "chat-1 answers")],
        ),
        ({}, ONE, []),
        (ONE, ONE, []),
    ],
)
def test_rollout_steps_cause_expected_events(
    before: Any, after: Any, reported: list[tuple[str, str]]
) -> None:
    assert [(found.reason, found.note) for found in transitions(before, after)] == reported


def test_replacement_of_pods_is_not_reported_as_sleep() -> None:
    awake = gates({"phase": "Awake"})
    going = gates({"phase": "Replacing", "sleepDepth": "Cluster"})
    assert [found.reason for found in transitions(awake, going)] == ["Replacing"]
    assert [found.note for found in transitions(going, awake)] == ["its new pods are being created"]


FIRST = {
    "phase": "Waking",
    "acceleratorQueue": {"position": 1, "heldBy": ["ns/a"], "headTime": "2026-01-02T03:04:05Z"},
}
SECOND = {
    "phase": "Waking",
    "queuedBehind": ["ns/b"],
    "acceleratorQueue": {"position": 2, "heldBy": ["ns/a"]},
}
TRIES = {"phase": "Waking", "acceleratorQueue": {"headTime": "2026-01-02T03:04:05Z"}}
ROOM = {"phase": "Waking", "acceleratorQueue": {"recentWaitSeconds": [30]}}


def read_report(*steps: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the events of one model whose gate goes through these states."""
    statuses = [gates(step) for step in steps]
    return [(found.reason, found.note) for pair in pairwise(statuses) for found in transitions(*pair)]


def test_accelerator_wait_causes_one_event_at_start_and_one_at_end() -> None:
    waits = "pods cannot be scheduled, queued at position 2 behind ns/b; used by ns/a"
    whole = ({"phase": "Waking"}, SECOND, SECOND, FIRST, TRIES, FIRST, ROOM, ROOM, {"phase": "Awake"})
    assert read_report(*whole) == [("WaitingForAccelerators", waits), ("RoomFound", "its pods have nodes")]
    alone = "pods cannot be scheduled, queued at position 1; used by ns/a"
    assert read_report({"phase": "Waking"}, FIRST) == [("WaitingForAccelerators", alone)]


def test_canceled_accelerator_wait_is_not_reported_as_room_found() -> None:
    reasons = [
        reason
        for reason, _ in read_report(
            SECOND, {"phase": "Draining"}, {"phase": "Asleep", "sleepDepth": "Workers"}
        )
    ]
    assert reasons == ["Asleep"]
    assert read_report(FIRST, {"phase": "Failed"}) == []


def test_event_of_yielding_model_names_waiting_workload() -> None:
    gone = {"phase": "Asleep", "sleepDepth": "Workers", "yieldedTo": "ns/b"}
    message = "the workers are released for ns/b, which waits for them; a request wakes it"
    assert read_report({"phase": "Draining", "yieldedTo": "ns/b"}, gone, gone) == [("Asleep", message)]
