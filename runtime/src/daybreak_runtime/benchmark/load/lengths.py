"""Requests with lengths by distribution. The same seed makes the same requests in each step."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from daybreak_runtime.benchmark.order import Lengths, Load

TOKENS = range(16, 500)
"""Tokens of prompts, which every vocabulary has. Their meaning does not change the work, because the lengths
are fixed; and with random ones no two prompts share a prefix by accident."""


@dataclass(frozen=True)
class PlannedRequest:
    """Request of the load."""

    prompt: list[int]
    """Prompt in tokens, so that its length is exact for every tokenizer."""
    output: int
    """Tokens of the answer."""


def draw(lengths: Lengths, dice: random.Random) -> int:
    """Return a length in tokens, within `min` and `max`. Raises ValueError for an unknown distribution."""
    match lengths.kind:
        case "Fixed":
            found = lengths.mean
        case "Uniform":
            return dice.randint(lengths.min, lengths.max)
        case "LogNormal":
            found = dice.lognormvariate(math.log(lengths.mean) - lengths.sigma**2 / 2, lengths.sigma)
        case _:
            raise ValueError(f"no distribution {lengths.kind}")
    return max(lengths.min, min(lengths.max, round(found)))


def requests(load: Load, client: int) -> Iterator[PlannedRequest]:
    """Yield the requests of one client, without end."""
    dice = random.Random(load.seed * 1_000_003 + client)  # noqa: S311 -- a load, not a secret
    prefixes = [_prefix(load, number) for number in range(load.prefixes if load.prefix_tokens else 0)]
    while True:
        if load.recorded:
            tokens, output = dice.choice(load.recorded)
        else:
            tokens, output = draw(load.prompt_tokens, dice), draw(load.output_tokens, dice)
        shared = dice.choice(prefixes)[: max(0, tokens - 1)] if prefixes else []
        own = dice.choices(TOKENS, k=max(1, tokens - len(shared)))
        yield PlannedRequest([*shared, *own], max(1, output))


def _prefix(load: Load, number: int) -> list[int]:
    dice = random.Random(f"{load.seed} prefix {number}")  # noqa: S311
    return dice.choices(TOKENS, k=load.prefix_tokens)
