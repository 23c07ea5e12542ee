"""Columns that `kubectl get` shows for every kind with a gate."""

from daybreak.api.schema.structural import Schema

_QUEUE = ".status.gate.models[*].acceleratorQueue"


def queue_columns() -> list[Schema]:
    """Return the columns of the accelerator queue, which are shown with `-o wide`.

    They are the position in the queue and the expected time. If several models wait, the columns show the
    first of them. They are empty if no model waits.
    """
    return [
        {"name": "Queue", "type": "integer", "jsonPath": f"{_QUEUE}.position", "priority": 1},
        # The type is not date: kubectl shows a date as an age, and has no age for a time in the future.
        {"name": "Expected", "type": "string", "jsonPath": f"{_QUEUE}.expectedTime", "priority": 1},
    ]
