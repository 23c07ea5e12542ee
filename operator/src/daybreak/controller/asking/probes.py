"""Tasks that ask beside the workers of the queue: one for each object of a kind."""

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
    """The questions that go on, each with what its task knows.

    Args:
        name: What is asked, for the names of the tasks.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._running: dict[Key, _Running[State]] = {}

    def state(self, key: Key) -> State | None:
        """What the task of an object knows; None: there is no task."""
        running = self._running.get(key)
        return None if running is None else running.state

    def start(self, key: Key, state: State, asking: Coroutine[None, None, None]) -> None:
        """Ask about an object, in place of what was asked about it before."""
        self.stop(key)
        self._running[key] = _Running(state, asyncio.create_task(asking, name=f"{self._name} {key}"))

    def stop(self, key: Key) -> None:
        """Stop asking about an object."""
        running = self._running.pop(key, None)
        if running is not None:
            running.task.cancel()

    async def close(self) -> None:
        """Stop asking."""
        tasks = [running.task for running in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
