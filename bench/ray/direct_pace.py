"""Simulated engine with tokens at a set pace, and the cost of the tokens alone.

    python -m bench.ray.direct_pace --streams 64 --seconds 5

It computes nothing. It writes the chunks that vLLM's OpenAI server writes, one token for each stream at a
time, at the pace of a GPU. A step is never shorter than `STEP_SECONDS`, and all streams of a replica get
`TOKENS_PER_SECOND` together. Steps follow the clock, like those of an engine in a separate process. A stream
with a late reader therefore gets several tokens, and sends them in one chunk, as vLLM does.
"""

import argparse
import asyncio
import json
import resource
import time
import uuid
from collections.abc import AsyncGenerator
from typing import Any

TOKENS_PER_SECOND = 6000.0
STEP_SECONDS = 0.01
_WORD = " token"


class Paced:
    """Streams that get their tokens at the engine's pace."""

    def __init__(self) -> None:
        self._streams: dict[int, _Stream] = {}
        self._stepping: asyncio.Task[None] | None = None
        self._number = 0
        self.chunks = 0

    @property
    def unfinished(self) -> int:
        """Return the number of unfinished streams."""
        return len(self._streams)

    async def tokens(self, desired: int) -> AsyncGenerator[int, None]:
        """Yield the numbers of arriving tokens until their sum is `wanted`."""
        self._number += 1
        number, stream = self._number, _Stream()
        self._streams[number] = stream
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.create_task(self._steps())
        try:
            while desired:
                count = min(await stream.take(), desired)
                desired -= count
                self.chunks += 1
                yield count
        finally:
            del self._streams[number]

    async def _steps(self) -> None:
        """Give each stream a token at each step, until no stream is left."""
        due = time.monotonic()
        while self._streams:
            due += step_seconds(len(self._streams))
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            steps = 1
            while due + step_seconds(len(self._streams)) <= time.monotonic():
                due += step_seconds(len(self._streams))
                steps += 1
            for stream in self._streams.values():
                stream.put(steps)


class _Stream:
    """Tokens that wait for one reader."""

    def __init__(self) -> None:
        self._waiting = 0
        self._some = asyncio.Event()

    def put(self, tokens: int) -> None:
        """Add a number of tokens."""
        self._waiting += tokens
        self._some.set()

    async def take(self) -> int:
        """Return all available tokens after waiting for the first."""
        await self._some.wait()
        self._some.clear()
        taken, self._waiting = self._waiting, 0
        return taken


def step_seconds(streams: int) -> float:
    """Return the seconds of a step with this number of streams."""
    return max(STEP_SECONDS, streams / TOKENS_PER_SECOND)


async def answer(paced: Paced, model: str, desired: int, prompt_tokens: int) -> AsyncGenerator[str, None]:
    """Write a streamed chat completion like vLLM, with exactly `wanted` tokens."""
    head = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion.chunk",
        "created": int(time.time()),
    }
    head["model"] = model
    first = {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "logprobs": None,
        "finish_reason": None,
    }
    yield _event({**head, "choices": [first], "prompt_token_ids": None})
    left = desired
    async for count in paced.tokens(desired):
        left -= count
        choice = {"index": 0, "delta": {"content": _WORD * count}, "logprobs": None}
        choice |= {"finish_reason": None if left else "length", "token_ids": None}
        yield _event({**head, "choices": [choice]})
    usage = {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + desired,
        "completion_tokens": desired,
    }
    yield _event({**head, "choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


def _event(document: dict[str, Any]) -> str:
    return f"data: {json.dumps(document, separators=(',', ':'))}\n\n"


async def alone(streams: int, seconds: float, tokens: int) -> dict[str, float]:
    """Return the cost of the streams if their chunks are not forwarded."""
    paced = Paced()
    ends = time.monotonic() + seconds
    made = 0

    async def one() -> None:
        nonlocal made
        while time.monotonic() < ends:
            async for _ in answer(paced, "stand-in", tokens, 1):
                pass
            made += tokens

    before, began = _cpu(), time.monotonic()
    await asyncio.gather(*(one() for _ in range(streams)))
    taken = time.monotonic() - began
    return {
        "streams": streams,
        "tokens_per_second": round(made / taken, 1),
        "tokens_per_chunk": round(made / paced.chunks, 3),
        "cpu_ms_per_1000_tokens": round(1e6 * (_cpu() - before) / made, 3),
    }


def _cpu() -> float:
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


def main() -> None:
    """Print the cost of the engine alone as JSON."""
    import uvloop

    parser = argparse.ArgumentParser(description="What the stand-in engine costs alone.")
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--tokens", type=int, default=114)
    arguments = parser.parse_args()
    print(json.dumps(uvloop.run(alone(arguments.streams, arguments.seconds, arguments.tokens))))


if __name__ == "__main__":
    main()
