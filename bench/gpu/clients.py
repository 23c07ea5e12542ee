"""One process of the load: each client sends its next request when it has received an answer.

    python -m bench.gpu.clients < job.json > seen.json

The process parses the bytes itself, because an HTTP library costs more for each token than the measured
paths.
"""

import asyncio
import json
import math
import random
import re
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

CONTENT = re.compile(rb'"content":\s?"(?!")')
"""Pattern of a chunk with content; the first chunk of an answer names only the role."""
_TOKENS = re.compile(rb'"prompt_tokens":\s?(\d+).*?"completion_tokens":\s?(\d+)')
_END = b"0\r\n\r\n"
_PATIENCE_SECONDS = 180.0
_PAUSE_SECONDS = 0.2
"""Seconds after an error, so that a path that rejects requests does not receive ten thousand per second."""


@dataclass(frozen=True)
class Lengths:
    """Log-normal lengths in tokens."""

    mean_in: float = 210.0
    mean_out: float = 114.0
    sigma: float = 0.7
    most: int = 1024
    template: int = 11
    """Number of tokens that the model's chat template adds to a question."""

    def draw(self, dice: random.Random) -> tuple[int, int]:
        """Return the number of tokens of one question and of its answer."""
        return self._one(dice, self.mean_in), self._one(dice, self.mean_out)

    def _one(self, dice: random.Random, mean: float) -> int:
        tokens = dice.lognormvariate(math.log(mean) - self.sigma**2 / 2, self.sigma)
        return max(4, min(self.most, round(tokens)))


@dataclass(frozen=True)
class Job:
    """Job of one process."""

    host: str
    port: int
    model: str
    clients: Sequence[int]
    """Numbers of the clients; each client sends the same questions on every path."""
    words: Sequence[tuple[str, int]]
    """Words, and the number of tokens of each."""
    begin: float
    """Time at which the clients start, on the monotonic clock."""
    end: float
    lengths: Lengths


@dataclass(frozen=True)
class RequestResult:
    """Result of one request."""

    sent: float
    first: float
    last: float
    prompt_tokens: int
    tokens: int
    desired: int
    error: str = ""


def body(job: Job, dice: random.Random) -> tuple[bytes, int]:
    """Return the body of a request, and the number of requested tokens."""
    tokens_in, tokens_out = job.lengths.draw(dice)
    text: list[str] = []
    tokens_in = max(1, tokens_in - job.lengths.template)
    while tokens_in > 0:
        word, tokens = dice.choice(job.words)
        text.append(word)
        tokens_in -= tokens
    request = {
        "model": job.model,
        "messages": [{"role": "user", "content": " ".join(text)}],
        "max_tokens": tokens_out,
        "temperature": 0.7,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return json.dumps(request).encode(), tokens_out


class Connection(asyncio.Protocol):
    """Connection of one client, with one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.WriteTransport | None = None
        self.closed = False
        self._answer = bytearray()
        self._first = 0.0
        self._done: asyncio.Future[str] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for sending."""
        # The transports of uvloop are not subclasses of asyncio's, but have the same methods.
        self.transport = cast(asyncio.WriteTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the lost connection to the waiting request."""
        self.closed = True
        self._finish("cut")

    def data_received(self, data: bytes) -> None:
        """Process a part of the answer."""
        answer = self._answer
        answer += data
        if not self._first and CONTENT.search(answer):
            self._first = time.monotonic()
        if answer.endswith(_END):
            status = bytes(answer[9:12]).decode(errors="replace")
            self._finish("" if status == "200" and b"[DONE]" in answer[-64:] else f"status {status}")
        elif not self._first and answer.startswith(b"HTTP/1.1 ") and answer[9:12] != b"200":
            self._finish(f"status {bytes(answer[9:12]).decode(errors='replace')}")

    async def ask(self, head: bytes, text: bytes, desired: int) -> RequestResult:
        """Send one request, and read its answer."""
        self._answer.clear()
        self._first = 0.0
        self._done = asyncio.get_running_loop().create_future()
        sent = time.monotonic()
        if self.transport is None or self.closed:
            return RequestResult(sent, sent, sent, 0, 0, desired, "not connected")
        self.transport.write(head % len(text) + text)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                error = await self._done
        except TimeoutError:
            error = "no end"
        last = time.monotonic()
        found = _TOKENS.search(self._answer)
        prompt, tokens = (int(found[1]), int(found[2])) if found else (0, 0)
        if error:
            self.closed = True
            self.transport.abort()
        return RequestResult(sent, self._first or last, last, prompt, tokens, desired, error)

    def _finish(self, error: str) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(error)


async def client(job: Job, number: int, observed: list[RequestResult]) -> None:
    """Run one client until the end of the job."""
    dice = random.Random(number)  # noqa: S311 -- a load, not a secret
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {job.host}:{job.port}\r\n"
        "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    ).encode()
    loop = asyncio.get_running_loop()
    connection: Connection | None = None
    # Clients must not start simultaneously.
    await asyncio.sleep(job.begin - time.monotonic() + dice.random())
    while time.monotonic() < job.end:
        text, desired = body(job, dice)
        try:
            if connection is None or connection.closed:
                _, connection = await loop.create_connection(Connection, job.host, job.port)
            one = await connection.ask(head, text, desired)
        except OSError as error:
            now = time.monotonic()
            one = RequestResult(now, now, now, 0, 0, desired, type(error).__name__)
        observed.append(one)
        if one.error:
            await asyncio.sleep(_PAUSE_SECONDS)


async def run(job: Job) -> list[RequestResult]:
    """Run all clients of the job; clients that still wait at the end disconnect."""
    observed: list[RequestResult] = []
    clients = [asyncio.create_task(client(job, number, observed)) for number in job.clients]
    await asyncio.wait(clients, timeout=job.end - time.monotonic())
    for one in clients:
        one.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    failed = [one.exception() for one in clients if not one.cancelled() and one.exception()]
    if failed and failed[0] is not None:
        raise failed[0]
    return observed


def main() -> None:
    """Read the job, run it, and print the results."""
    import uvloop  # among images/ray's packages, not among those of the tests

    document: dict[str, Any] = json.load(sys.stdin)
    document["lengths"] = Lengths(**document["lengths"])
    observed = uvloop.run(run(Job(**document)))
    use = resource.getrusage(resource.RUSAGE_SELF)
    json.dump(
        {"cpu": use.ru_utime + use.ru_stime, "seen": [list(asdict(one).values()) for one in observed]},
        sys.stdout,
    )


if __name__ == "__main__":
    main()
