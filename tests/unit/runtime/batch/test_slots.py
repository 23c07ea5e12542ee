"""The slots of an engine stay full, although the rows of a batch end one after another."""

import heapq
import random
from collections import deque

import pytest

from daybreak_runtime.batch.engines import concurrent_batches
from daybreak_runtime.batch.order import Engines

ROWS = 20_000


def busy(engines: Engines, batches: int) -> float:
    """Return the busy part of an engine's slots with `batches` batches in it, of log-normal lengths.

    A batch is replaced by the next one when its longest row is answered. The count ends with less than a
    twentieth of the rows left: at the end no engine is full.
    """
    dice = random.Random(1)  # noqa: S311 -- lengths, not secrets
    waiting: deque[tuple[int, float]] = deque()
    running: list[tuple[float, int]] = []
    left: dict[int, int] = {}
    now = used = 0.0
    begun = 0
    while begun < 0.95 * ROWS:
        while len(left) < batches:
            number = begun // engines.batch_size
            left[number] = engines.batch_size
            waiting.extend((number, dice.lognormvariate(0, 0.9)) for _ in range(engines.batch_size))
            begun += engines.batch_size
        while waiting and len(running) < engines.max_num_seqs:
            batch, length = waiting.popleft()
            heapq.heappush(running, (now + length, batch))
        end, batch = heapq.heappop(running)
        used += (len(running) + 1) * (end - now)
        now = end
        left[batch] -= 1
        if not left[batch]:
            del left[batch]
    return used / now / engines.max_num_seqs


@pytest.mark.parametrize("batch_size", [1, 8, 16, 32, 128])
@pytest.mark.parametrize("slots", [32, 256])
def test_engine_slots_are_over_95_percent_busy_for_each_batch_size(slots: int, batch_size: int) -> None:
    engines = Engines("model", {}, {}, "prepare", max_num_seqs=slots, batch_size=batch_size)

    assert busy(engines, concurrent_batches(engines)) > 0.95


def test_batches_for_a_tenth_more_rows_than_slots_leave_slots_idle() -> None:
    engines = Engines("model", {}, {}, "prepare", max_num_seqs=256, batch_size=16)

    assert busy(engines, 18) < 0.6


def test_at_least_two_batches_are_concurrent() -> None:
    assert concurrent_batches(Engines("model", {}, {}, "prepare", max_num_seqs=1, batch_size=4096)) == 2
