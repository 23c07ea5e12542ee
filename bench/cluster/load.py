"""Requests at a steady pace, independent of the answers to earlier ones."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp

PACE_SECONDS = 0.5
"""Seconds between two requests."""
PATIENCE_SECONDS = 900.0


@dataclass(frozen=True)
class Answer:
    """Result of one request, with times of the monotonic clock."""

    sent: float
    seconds: float
    error: str = ""
    """Error of the request; empty if a token arrived."""


@dataclass
class Load:
    """Client that sends requests until `end` is called."""

    url: str
    model: str
    answers: list[Answer] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    def within(self, begin: float, end: float) -> list[Answer]:
        """Return the results of requests that were sent in a time span."""
        return [answer for answer in self.answers if begin <= answer.sent < end]

    async def run(self) -> None:
        """Send requests, and wait for every answer at the end."""
        limits = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=PATIENCE_SECONDS)
        requested: list[asyncio.Task[None]] = []
        async with aiohttp.ClientSession(connector=connector, timeout=limits) as session:
            while not self._over.is_set():
                requested.append(asyncio.create_task(self._ask(session)))
                await asyncio.sleep(PACE_SECONDS)
            await asyncio.gather(*requested)

    def end(self) -> None:
        """Stop sending."""
        self._over.set()

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        body = {"model": self.model, "prompt": "Good morning", "max_tokens": 2}
        sent, error = time.monotonic(), ""
        try:
            async with session.post(self.url, json=body) as answer:
                text = await answer.text()
                if answer.status != 200 or '"choices"' not in text:
                    error = f"{answer.status} {text[:300]}"
        except (aiohttp.ClientError, TimeoutError) as failed:
            error = repr(failed)
        self.answers.append(Answer(sent, time.monotonic() - sent, error))


@contextmanager
def send_requests(url: str, model: str) -> Iterator[Load]:
    """Send requests during the block; after the block, every request has its answer."""
    load = Load(url, model)
    thread = threading.Thread(target=lambda: asyncio.run(load.run()), name="load")
    thread.start()
    try:
        yield load
    finally:
        load.end()
        thread.join()


def p99(answers: Sequence[Answer]) -> float:
    """Return the 99th percentile in seconds."""
    seconds = sorted(answer.seconds for answer in answers)
    return seconds[min(len(seconds) - 1, int(0.99 * len(seconds)))]
