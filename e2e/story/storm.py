"""Many requests to one service over kept-alive connections, each answer matched to its request."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from openai import AsyncOpenAI, OpenAIError

from story.kubernetes import Kubernetes

AT_ONCE = 48
"""Connections: several for each thing that the tiny model computes at once."""
TIMEOUT_SECONDS = 900.0


@dataclass
class Tally:
    """What came of the requests."""

    sent: int = 0
    answered: Counter[int] = field(default_factory=Counter)
    """How often each request's own answer came, by its number."""
    wrong: list[str] = field(default_factory=list)
    """Answers that belong to another request, or to none."""
    lost: list[str] = field(default_factory=list)
    """Requests that ended in an error."""
    slowest: float = 0.0
    """Seconds of the longest request."""
    waves: list[tuple[str, int]] = field(default_factory=list)
    """In which phase how many were sent."""


class Storm:
    """A client that sends waves of requests, and keeps count.

    Each prompt has a number of its own, which vLLM gives back in front of its answer (`echo`).
    """

    def __init__(self, base_url: str, model: str) -> None:
        self.tally = Tally()
        self._model = model
        self._client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=TIMEOUT_SECONDS)
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._tasks: list[asyncio.Task[None]] = []

    def wave(self, phase: str, count: int) -> None:
        """Send so many requests, without waiting for the answers."""
        self.tally.waves.append((phase, count))
        for _ in range(count):
            self.tally.sent += 1
            self._tasks.append(asyncio.create_task(self._ask(self.tally.sent)))

    async def calm(self) -> None:
        """Wait for every answer."""
        tasks, self._tasks = self._tasks, []
        await asyncio.gather(*tasks)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _ask(self, number: int) -> None:
        prompt = f"request {number}:"
        async with self._turn:
            began = time.monotonic()
            try:
                text = await self._answer(prompt, stream=number % 4 == 0)
            except OpenAIError as error:
                self.tally.lost.append(f"{prompt} {type(error).__name__} {error}")
                return
            finally:
                self.tally.slowest = max(self.tally.slowest, time.monotonic() - began)
        if text.startswith(prompt):
            self.tally.answered[number] += 1
        else:
            self.tally.wrong.append(f"{prompt} {text!r}")

    async def _answer(self, prompt: str, *, stream: bool) -> str:
        options: dict[str, Any] = {"model": self._model, "prompt": prompt, "max_tokens": 2, "echo": True}
        if not stream:
            answer = await self._client.completions.create(**options)
            return str(answer.choices[0].text)
        chunks = await self._client.completions.create(**options, stream=True)
        return "".join([chunk.choices[0].text async for chunk in chunks if chunk.choices])


async def through_every_transition(
    kubernetes: Kubernetes, name: str, base: str, model: str, count: int
) -> Tally:
    """Waves while it is awake, as the gate closes, while it sleeps, while it wakes, and as the gate opens.

    Args:
        kubernetes: The cluster.
        name: The LLMService; it sleeps (depth Workers) after 4 seconds.
        base: Its base URL.
        model: Its model.
        count: Requests at least.
    """
    client = Storm(base, model)

    async def until(*wanted: str, every: float = 0.1) -> None:
        deadline = time.monotonic() + 600
        while (seen := await asyncio.to_thread(phase, kubernetes, name)) not in wanted:
            assert time.monotonic() < deadline, f"{name} is still {seen}, not {wanted}"
            await asyncio.sleep(every)

    try:
        client.wave("Awake", 200)
        await client.calm()
        # Seconds from the last answer to the closing of the gate: single requests all along, so that some
        # arrive just when it closes. Each keeps it awake for another while, or turns it round.
        for pause in (3.6, 3.8, 4.0, 4.2, 4.4, 4.6):
            await asyncio.sleep(pause)
            client.wave("Draining or Asleep", 20)
            await asyncio.sleep(0.3)
            if await asyncio.to_thread(phase, kubernetes, name) in ("Asleep", "Waking"):
                break
            await client.calm()
        await client.calm()
        await until("Asleep")
        # Down to zero: a replica that has not ended yet would be there again before anybody waits.
        async with asyncio.timeout(600):
            while await asyncio.to_thread(workers, kubernetes, name):  # noqa: ASYNC110 -- kubectl has no event
                await asyncio.sleep(1)
        client.wave("Asleep", 200)
        await until("Waking", "Awake")
        while await asyncio.to_thread(phase, kubernetes, name) == "Waking":
            client.wave("Waking", 5)
            await asyncio.sleep(1)
        client.wave("Awake", max(200, count - client.tally.sent))
        await client.calm()
        await until("Asleep")
    finally:
        await client.close()
    return client.tally


def workers(kubernetes: Kubernetes, name: str) -> list[str]:
    """Its worker pods."""
    return kubernetes.names("pods", "-l", f"daybreak.dev/service={name},ray.io/node-type=worker")


def phase(kubernetes: Kubernetes, name: str) -> str:
    """One word on the LLMService."""
    said: str = (kubernetes.get("llm", name) or {})["status"]["phase"]
    return said
