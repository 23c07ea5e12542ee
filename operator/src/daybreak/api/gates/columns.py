"""What `kubectl get` shows of every kind with a gate."""

from daybreak.api.schema.structural import Schema

_QUEUE = ".status.gate.models[*].acceleratorQueue"


def queue_columns() -> list[Schema]:
    """Its place among those that wait for accelerators, and when it may expect room; with `-o wide`.

    Of several models that wait, those of the first one; empty where none does.
    """
    return [
        {"name": "Queue", "type": "integer", "jsonPath": f"{_QUEUE}.position", "priority": 1},
        # No date: kubectl shows those as an age, and has none for what is to come.
        {"name": "Expected", "type": "string", "jsonPath": f"{_QUEUE}.expectedTime", "priority": 1},
    ]
