"""The limit of a replica, and the queue in front of it."""

import asyncio
from dataclasses import dataclass

import pytest

from daybreak_runtime.http.admission import Admission, Closed, QueueFull
from tests.unit.runtime.asgi_calls import settle


@dataclass
class Limits:
    """Variable limits."""

    running: int = 2
    waiting: int = 10

    def admission(self) -> Admission:
        """Return an admission with these limits."""
        return Admission(lambda: self.running, lambda: self.waiting)


async def test_try_enter_fails_above_running_limit() -> None:
    admission = Limits(running=2).admission()
    assert admission.try_enter()
    assert admission.try_enter()
    assert not admission.try_enter()
    assert admission.running == 2


async def test_queued_requests_enter_in_order_of_arrival() -> None:
    admission, order = Limits(running=1).admission(), []
    assert admission.try_enter()

    async def one(name: str) -> None:
        await admission.enter()
        order.append(name)

    tasks = []
    for name in "abc":
        tasks.append(asyncio.create_task(one(name)))
        await settle()
    for _ in tasks:
        admission.leave()
        assert not admission.try_enter() or order == ["a", "b", "c"], "nobody goes past the queue"
        await settle()
    assert order == ["a", "b", "c"]
    await asyncio.gather(*tasks)


async def test_enter_raises_queue_full_above_waiting_limit() -> None:
    admission = Limits(running=1, waiting=1).admission()
    assert admission.try_enter()
    waiting = asyncio.create_task(admission.enter())
    await settle()
    with pytest.raises(QueueFull):
        await admission.enter()
    admission.leave()
    await waiting
    assert (admission.running, admission.waiting) == (1, 0)


async def test_cancelled_request_leaves_queue() -> None:
    admission = Limits(running=1).admission()
    assert admission.try_enter()
    first, second = (asyncio.create_task(admission.enter()) for _ in range(2))
    await settle()
    first.cancel()
    await settle()
    assert admission.waiting == 1
    admission.leave()
    await second
    assert admission.running == 1


async def test_slot_of_cancelled_request_goes_to_next_request() -> None:
    admission = Limits(running=1).admission()
    assert admission.try_enter()
    first, second = (asyncio.create_task(admission.enter()) for _ in range(2))
    await settle()
    admission.leave()  # The released slot now belongs to the first task, which has not run yet ...
    first.cancel()  # ... and never will.
    await second
    assert first.cancelled()
    assert (admission.running, admission.waiting) == (1, 0)


async def test_higher_limit_admits_queued_requests_immediately() -> None:
    limits = Limits(running=1)
    admission = limits.admission()
    assert admission.try_enter()
    waiting = [asyncio.create_task(admission.enter()) for _ in range(3)]
    await settle()
    limits.running = 3
    admission.let_in()
    await settle()
    assert [task.done() for task in waiting] == [True, True, False]
    waiting[2].cancel()


async def test_lower_limit_blocks_entry_until_enough_running_requests_leave() -> None:
    limits = Limits(running=3)
    admission = limits.admission()
    assert all(admission.try_enter() for _ in range(3))
    limits.running = 1
    admission.leave()
    admission.leave()
    assert not admission.try_enter()
    admission.leave()
    assert admission.try_enter()


async def test_closing_rejects_waiting_and_new_requests() -> None:
    admission = Limits(running=1).admission()
    assert admission.try_enter()
    waiting = asyncio.create_task(admission.enter())
    await settle()
    admission.close()
    with pytest.raises(Closed):
        await waiting
    with pytest.raises(Closed):
        await admission.enter()
    assert not admission.try_enter()
