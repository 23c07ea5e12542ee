"""Warm-up of vLLM's samplers, before a replica's port opens.

vLLM samples a batch on the GPU with FlashInfer. If one of its requests is greedy or has a seed, vLLM uses
other kernels for the whole batch. Triton compiles them for 8 rows or more, and all requests wait for 5 s. The
warm-up runs both ways.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

log = logging.getLogger("ray.serve")

ROWS = 16
"""Rows of a batch. Triton compiles a kernel for multiples of 16, and another one for all other numbers."""
SHORT_ROWS = 7
"""Rows that end first: those that remain are a batch of another size, still of 8 or more."""
SHORT_TOKENS, LONG_TOKENS = 3, 8
TIMEOUT_SECONDS = 120.0
"""Maximum duration of the warm-up; the port then opens without it."""
TOP_P = 0.9
"""Value of `top_p` in a client's request."""
SAMPLING = ("temperature", "top_k", "top_p")
"""Parameters that select a sampler's kernels."""


class Generator(Protocol):
    """An engine that can be warmed up."""

    @property
    def has_gpu_sampler(self) -> bool:
        """Return True if the engine samples tokens on a GPU."""
        ...

    @property
    def max_rows(self) -> int:
        """Return the maximum number of requests in a batch."""
        ...

    @property
    def default_sampling(self) -> Mapping[str, Any]:
        """Return the model's own sampling parameters."""
        ...

    async def generate(self, request_id: str, tokens: int, sampling: Mapping[str, Any]) -> None:
        """Generate a number of tokens from a prompt of one token."""
        ...


@dataclass(frozen=True)
class Row:
    """One request of a warm-up batch."""

    tokens: int
    sampling: Mapping[str, Any]


def batches(max_rows: int, default_sampling: Mapping[str, Any]) -> Iterator[Sequence[Row]]:
    """Yield the batches of a warm-up.

    Requests have the model's own parameters, and those with a `top_p` of a client. Each batch is repeated
    with one greedy row, which stays until the end.
    """
    own = {name: default_sampling[name] for name in SAMPLING if name in default_sampling}
    # A greedy request has no top_k and no top_p.
    own |= {} if own.get("temperature", 1.0) else {"temperature": 1.0}
    variants = [own] if "top_p" in own else [own, {**own, "top_p": TOP_P}]
    rows = min(ROWS, max_rows)
    for sampling in variants:
        for greedy in (False, True):
            yield [
                Row(
                    SHORT_TOKENS if number < SHORT_ROWS else LONG_TOKENS,
                    {"temperature": 0.0} if greedy and number == rows - 1 else sampling,
                )
                for number in range(rows)
            ]


async def warm_up(engine: Generator) -> None:
    """Run the warm-up. A failure is logged: requests are then served by a cold sampler."""
    if not engine.has_gpu_sampler:
        return
    start = time.monotonic()
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            for number, rows in enumerate(batches(engine.max_rows, engine.default_sampling)):
                await _run(engine, f"daybreak-warmup-{number}", rows)
    except Exception:
        log.exception("The warm-up of the sampler failed.")
    else:
        log.info("The sampler was warmed up in %.1f s.", time.monotonic() - start)


async def _run(engine: Generator, name: str, rows: Sequence[Row]) -> None:
    """Run all rows at once, as one batch."""
    async with asyncio.TaskGroup() as group:
        for number, row in enumerate(rows):
            group.create_task(engine.generate(f"{name}-{number}", row.tokens, row.sampling))
