"""Delay until the next reconcile of an object."""

from datetime import timedelta

from daybreak.controller.again import SOON_SECONDS, Again, retry_conflicts
from daybreak.kube.writing.apply import Occupied
from daybreak.manifests.keys import Key

KEY = Key("team", "a")


def test_earliest_delay_is_used() -> None:
    again = Again()
    assert again.seconds is None
    again.within(None)
    assert again.seconds is None
    again.after(15.0, 2.0)
    again.within(timedelta(seconds=3))
    assert again.seconds == 2.0
    again.at_once()
    assert again.seconds == 0.0


async def test_conflict_is_retried_at_once() -> None:
    tried = []

    async def once(key: Key) -> float | None:
        tried.append(key)
        if len(tried) < 3:
            raise Occupied
        return 7.0

    assert await retry_conflicts(once, KEY, ("a", "b", "c")) == 7.0
    assert tried == [KEY] * 3


async def test_repeated_conflict_is_retried_after_a_delay() -> None:
    async def once(key: Key) -> float | None:
        raise Occupied

    assert await retry_conflicts(once, KEY, ("a", "b")) == SOON_SECONDS
