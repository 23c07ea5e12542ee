"""Which changes of a status are worth an event."""

from typing import Any

import pytest

from daybreak.reconcile.conditions import transitions


def status(**conditions: str) -> dict[str, Any]:
    """A status with conditions given as `Type="True Reason"`."""
    split = {kind: text.split() for kind, text in conditions.items()}
    return {
        "conditions": [
            {"type": kind, "status": words[0], "reason": words[1], "message": "m"}
            for kind, words in split.items()
        ]
    }


NONE: list[tuple[str, str, bool]] = []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, status(Ready="Unknown Progressing", Stalled="False Steady"), NONE),
        ({}, status(Ready="False Refused", Stalled="True Refused"), [("Stalled", "Refused", True)]),
        (
            status(Ready="Unknown Progressing"),
            status(Ready="True Answering"),
            [("Ready", "Answering", False)],
        ),
        (status(Ready="True Answering"), status(Ready="True Answering"), NONE),
        (
            status(Ready="True Answering"),
            status(Ready="False NotAnswering"),
            [("Ready", "NotAnswering", True)],
        ),
        (status(Ready="False NotAnswering"), status(Ready="False ModelFailed"), NONE),
        (status(Ready="False NotAnswering"), status(Ready="True Answering"), [("Ready", "Answering", False)]),
        (status(Stalled="True A"), status(Stalled="True B"), [("Stalled", "B", True)]),
        (status(Stalled="True A"), status(Stalled="False Steady"), [("Stalled", "Steady", False)]),
        ({}, status(Schedulable="False NoNodeFits"), [("Schedulable", "NoNodeFits", True)]),
        ({}, status(Schedulable="True Fits"), NONE),
        (status(Reconciling="True A"), status(Reconciling="False B"), NONE),
    ],
)
def test_transitions(before: Any, after: Any, expected: list[tuple[str, str, bool]]) -> None:
    assert [(found.type, found.reason, found.warning) for found in transitions(before, after)] == expected
