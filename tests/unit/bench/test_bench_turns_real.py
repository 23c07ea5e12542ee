"""Three models that share accelerators in the embedded cluster: they yield and wake often enough."""

from collections import deque
from typing import Any

from bench import report
from bench.cluster import turns_real
from cluster.tools.report import Report
from daybreak.api.common import names


def test_default_clients_produce_enough_turns_for_goal() -> None:
    order = turns_real._order(turns_real.REQUESTS, turns_real.SEED)

    turns = _turns(order, turns_real.CLIENTS)

    assert report.met(turns, turns_real.GOALS["turns"])
    assert not report.met(len(turns_real.MODELS), turns_real.GOALS["turns"])


def test_150_clients_produce_too_few_turns_for_goal() -> None:
    order = turns_real._order(turns_real.REQUESTS, turns_real.SEED)

    assert not report.met(_turns(order, 150), turns_real.GOALS["turns"])


def test_turn_seen_in_only_one_status_is_counted() -> None:
    tally = turns_real._Tally()

    for awake in ("red", "blue", "red"):
        turns_real._see_gates(tally, Report(), _status(awake))

    assert tally.awake == ["red", "blue", "red"]


def test_maximum_of_scheduled_models_is_updated_at_every_pod_event() -> None:
    tally = turns_real._Tally()

    for kind, model in (("ADDED", "red"), ("DELETED", "red"), ("ADDED", "blue"), ("DELETED", "blue")):
        turns_real._see_pod(tally, _pod(kind, model))
    assert tally.most == 1

    for model in ("red", "green"):
        turns_real._see_pod(tally, _pod("MODIFIED", model))
    assert tally.most == 2


def _status(awake: str) -> dict[str, Any]:
    service = turns_real.MODELS[awake]
    gates = [
        {"name": model, "phase": "Awake" if model == awake else "Asleep"}
        for model in turns_real.SERVICES[service]
    ]
    return {"object": {"metadata": {"name": service}, "status": {"gate": {"models": gates}}}}


def _pod(kind: str, model: str) -> dict[str, Any]:
    labels = {
        **names.owner_labels(turns_real.MODELS[model]),
        names.RAY_NODE_TYPE_LABEL: "worker",
        names.MODEL_LABEL: model,
    }
    pod = {
        "metadata": {"name": f"{model}-worker", "labels": labels},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running"},
    }
    return {"type": kind, "object": pod}


def _turns(order: list[str], clients: int) -> int:
    """Return the number of turns. A turn ends when all clients wait for other models; longest wait first."""
    left = deque(order)
    held = deque(left.popleft() for _ in range(clients))
    turns = 0
    while held:
        model, turns = held[0], turns + 1
        while model in held:
            held.remove(model)
            if left:
                held.append(left.popleft())
    return turns
