"""Background tasks that query outside the queue's workers, one per object of a kind."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Generic, TypeVar

from daybreak.manifests.keys import Key

State = TypeVar("State")


@dataclass(frozen=True)
class _Running(Generic[State]):
    state: State
    task: asyncio.Task[None]


class Probes(Generic[State]):
    """Running queries, each with the state of its task.

    Args:
        name: Subject of the queries, for the names of the tasks.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: dict[Key, _Running[State]] = {}

    def state(self, key: Key) -> State | None:
        """Return the state of an object's task, or None if no task runs."""
        running = self._running.get(key)
        return None if running is None else running.state

    def start(self, key: Key, state: State, asking: Coroutine[None, None, None]) -> None:
        """Start querying for an object, and replace its previous task."""
        self.stop(key)
        self._running[key] = _Running(state, asyncio.create_task(asking, name=f"{self._name} {key}"))

    def stop(self, key: Key) -> None:
        """Stop querying for an object."""
        running = self._running.pop(key, None)
        if running is not None:
            running.task.cancel()

    async def close(self) -> None:
        """Stop all queries."""
        tasks = [running.task for running in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
