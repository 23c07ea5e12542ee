"""What `kubectl get` shows of every kind with a gate."""

from daybreak.api.schema.structural import Schema

_ROOM = ".status.gate.models[*].room"


def queue_columns() -> list[Schema]:
    """Its place among those that wait for accelerators, and when it may expect room; with `-o wide`.

    Of several models that wait, those of the first one; empty where none does.
    """
    return [
        {"name": "Place", "type": "integer", "jsonPath": f"{_ROOM}.place", "priority": 1},
        # No date: kubectl shows those as an age, and has none for what is to come.
        {"name": "Expected", "type": "string", "jsonPath": f"{_ROOM}.expectedAt", "priority": 1},
    ]
