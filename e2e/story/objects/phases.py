"""Phases of a workload, including phases too short to be polled."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

from quickstart.target import program
from story.objects.kubernetes import NAMESPACE, Kubernetes

PATIENCE = 600.0
"""Maximum wait for a phase, in seconds."""
NOW = -1


class Phases:
    """All phases since the start of the watch, in order."""

    def __init__(self) -> None:
        self.observed: list[str] = []
        self._news = asyncio.Event()
        self._ended = False

    @property
    def now(self) -> str:
        """Return the latest phase."""
        return self.observed[NOW]

    async def until(self, *desired: str, since: int = NOW) -> None:
        """Wait until the workload is in one of these phases.

        Args:
            desired: Accepted phases.
            since: Index into the observed phases; an accepted phase from this index on is enough.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while not set(desired) & set(self.observed[since:]):
                    assert not self._ended, "kubectl has stopped to watch"
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"waited for {desired}; seen so far: {self.observed}") from None

    async def follow(self, lines: asyncio.StreamReader) -> None:
        """Record phases, a line for each change of the object, until the stream ends."""
        async for line in lines:
            phase = line.decode().strip()
            if self.observed[NOW:] != [phase]:
                self.observed.append(phase)
                self._news.set()
        self._ended = True
        self._news.set()


@asynccontextmanager
async def watched(kubernetes: Kubernetes, name: str, resource: str = "llm") -> AsyncIterator[Phases]:
    """Yield the phases of an LLMService or another workload, starting with its current one."""
    watch = await asyncio.create_subprocess_exec(
        program("kubectl"), "get", "-n", NAMESPACE, resource, name,
        "--watch", "-o", r'jsonpath={.status.phase}{"\n"}',
        env=kubernetes.target.environment,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert watch.stdout is not None
    phases = Phases()
    following = asyncio.create_task(phases.follow(watch.stdout))
    try:
        await phases.until("Waking", "Awake", "Draining", "Asleep")
        yield phases
    finally:
        if watch.returncode is None:
            watch.terminate()
        await watch.wait()
        await following


def turned_round(phases: Sequence[str]) -> int:
    """Count how often requests canceled a sleep: the gate had closed and was opened again."""
    return sum(before == "Draining" and after != "Asleep" for before, after in pairwise(phases))
