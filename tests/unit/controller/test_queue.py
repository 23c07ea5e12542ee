"""The work queue: each key once, one worker per key, and a delayed retry after a failure."""

import asyncio
from types import SimpleNamespace

import pytest

from daybreak.controller import queue
from daybreak.controller.queue import Item, Queue
from daybreak.manifests.keys import Key
from tests.unit.clock import Clock

A, B = Item("LLMService", Key("ns", "a")), Item("LLMService", Key("ns", "b"))


async def taken(from_queue: Queue) -> Item | None:
    """Return the next key, or None if the queue stays empty for a while."""
    try:
        return await asyncio.wait_for(from_queue.take(), 0.05)
    except TimeoutError:
        return None


async def test_items_are_taken_in_order_and_once() -> None:
    work = Queue()
    for key in (A, B, A, A):
        work.add(key)
    assert [await taken(work), await taken(work), await taken(work)] == [A, B, None]


async def test_item_added_while_in_progress_is_taken_once_more_afterwards() -> None:
    work = Queue()
    work.add(A)
    await work.take()
    work.add(A)
    work.add(A)
    assert await taken(work) is None, "one worker for each key"
    work.done(A)
    assert await taken(work) == A
    work.done(A)
    assert await taken(work) is None


async def test_waiting_worker_receives_added_item() -> None:
    work = Queue()
    waiting = asyncio.create_task(work.take())
    await asyncio.sleep(0)
    work.add(A)
    assert await asyncio.wait_for(waiting, 1) == A


async def test_delayed_items_are_taken_in_order_of_their_time() -> None:
    work = Queue()
    work.add(A, after=0.5)
    work.add(B, after=0.01)
    assert len(work) == 0
    assert [await work.take(), await work.take()] == [B, A]


async def test_earliest_time_of_an_item_is_used() -> None:
    work = Queue()
    work.add(A, after=60)
    work.add(A, after=0.01)
    work.add(A, after=30)
    assert await asyncio.wait_for(work.take(), 1) == A
    work.done(A, again_after=60)
    work.add(A)
    assert await taken(work) == A
    work.done(A)
    assert await taken(work) is None, "the later look was the same one"


async def test_delay_grows_with_failures_and_is_reset_by_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue, "BACKOFF_SECONDS", (100.0, 1000.0))
    work = Queue()
    pauses = []
    for _ in range(6):
        work.add(A)
        await work.take()
        pauses.append(work.failed(A, 1000.0))
    for number, pause in enumerate(pauses):
        middle = min(1000.0, 100.0 * 2**number)
        assert 0.75 * middle <= pause <= 1.25 * middle
    work.add(A)
    await work.take()
    work.done(A)
    work.add(A)
    await work.take()
    assert work.failed(A, 1000.0) <= 125


async def test_failures_of_one_key_do_not_delay_another_key() -> None:
    work = Queue()
    work.add(A)
    await work.take()
    work.failed(A)
    work.add(B)
    assert await taken(work) == B


async def test_change_during_failed_reconcile_shortens_but_keeps_delay() -> None:
    work = Queue()
    for _ in range(8):
        work.add(A)
        await work.take()
        work.failed(A)
    work.add(A)
    await work.take()
    work.add(A)
    assert 0 < work.failed(A) <= 2 * queue.BACKOFF_SECONDS[0]
    assert len(work) == 0


async def test_oldest_and_quiet_include_items_in_progress() -> None:
    work = Queue()
    assert work.oldest() == 0
    await asyncio.wait_for(work.quiet(), 1)
    work.add(A)
    await asyncio.sleep(0.02)
    assert work.oldest() >= 0.02
    await work.take()
    assert work.running == 1
    await asyncio.sleep(0.02)
    assert work.oldest() >= 0.02, "what is worked on for long is as bad"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(work.quiet(), 0.01)
    work.done(A)
    await asyncio.wait_for(work.quiet(), 1)
    assert work.oldest() == 0


async def test_delay_requested_by_server_is_kept_up_to_a_limit() -> None:
    work = Queue()
    work.add(A)
    await work.take()
    assert work.failed(A, 10.0, least=7.0) >= 7.0
    work.add(B)
    await work.take()
    assert work.failed(B, 10.0, least=3600.0) <= queue.LONGEST_ASKED * 1.25, "nobody is believed for an hour"


async def test_repeated_immediate_requeues_of_an_item_are_delayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue, "AT_ONCE_TIMES", 2)
    work = Queue()
    work.add(A)
    for _ in range(3):
        assert await work.take() == A
        work.done(A, again_after=0.0)
    assert not len(work), "the third time it waits"
    work.add(B)
    assert await work.take() == B, "meanwhile the others are looked at"
    assert await work.take() == A
    work.done(A)
    work.add(A)
    assert await work.take() == A
    work.done(A, again_after=0.0)
    assert len(work), "and it begins anew once it is at rest"


async def test_long_queue_is_not_stuck_while_items_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, work = Clock(), Queue()
    monkeypatch.setattr(queue, "time", SimpleNamespace(monotonic=clock))
    assert work.stuck() == 0
    for number in range(100):
        work.add(Item("LLMService", Key("ns", f"s{number}")))
    for _ in range(99):
        clock.now += 10
        work.done(await work.take())
    clock.now += 10
    assert work.oldest() == 1000
    assert work.stuck() == 10, "something was taken lately"
    clock.now += 200
    assert work.stuck() == 210, "nothing is taken any more"
    await work.take()
    clock.now += 300
    assert work.stuck() == 300, "what is worked on does not end"


async def test_stuck_time_starts_when_item_is_added_to_empty_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, work = Clock(), Queue()
    monkeypatch.setattr(queue, "time", SimpleNamespace(monotonic=clock))
    work.add(A)
    work.done(await work.take())
    clock.now += 3600
    assert work.stuck() == 0
    work.add(A)
    clock.now += 1
    assert work.stuck() == 1
