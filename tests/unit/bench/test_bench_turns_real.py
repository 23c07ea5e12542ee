"""Three models that take turns on the embedded cluster: models yield and come back, as often as is wanted."""

from collections import deque

from bench import report
from bench.cluster import turns_real


def test_its_clients_bring_each_model_back_more_often_than_is_wanted() -> None:
    order = turns_real._order(turns_real.REQUESTS, turns_real.SEED)

    turns = _turns(order, turns_real.CLIENTS)

    assert report.met(turns, turns_real.GOALS["turns"])
    assert not report.met(len(turns_real.MODELS), turns_real.GOALS["turns"])


def test_more_clients_than_the_longest_turn_answers_are_too_many() -> None:
    order = turns_real._order(turns_real.REQUESTS, turns_real.SEED)

    assert not report.met(_turns(order, 150), turns_real.GOALS["turns"])


def _turns(order: list[str], clients: int) -> int:
    """Turns, where each ends when every client waits for another model, and who waits longest is next."""
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
