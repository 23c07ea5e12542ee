"""One hour of requests to many services, most of them to a few, reproducible by seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

HOUR = 3600.0


@dataclass(frozen=True)
class Request:
    """One request, with times in seconds of the compressed hour."""

    number: int
    service: int
    at: float
    """Time at which the client sends the request, since the beginning of the hour."""
    seconds: float
    """Seconds for which an engine computes the request."""
    session: int = 0
    """Session of the request."""


@dataclass(frozen=True)
class Shape:
    """Shape of the hour, in seconds of a real one."""

    services: int = 20
    sessions: int = 44
    """Number of sessions: one with each service, and the others by popularity."""
    requests: float = 8.0
    """Average number of requests in a session."""
    pause: float = 12.0
    """Average seconds between two requests of a session."""
    least: float = 5.0
    most: float = 25.0
    """Maximum seconds for which an engine computes a request; `least` is the minimum."""
    skew: float = 1.5
    """Zipf exponent: the nth service gets the other sessions in proportion to 1/n to this power."""


def arrivals(shape: Shape, compression: float, seed: int) -> Sequence[Request]:
    """Return the hour's requests in sending order, with every time divided by the compression."""
    dice = random.Random(seed)  # noqa: S311 -- made up
    weights = [1 / rank**shape.skew for rank in range(1, shape.services + 1)]
    chosen = dice.choices(range(shape.services), weights, k=shape.sessions - shape.services)
    found: list[tuple[float, int, int, float]] = []
    for session, service in enumerate([*range(shape.services), *chosen]):
        now = dice.uniform(0, HOUR)
        for _ in range(1 + round(dice.expovariate(1 / (shape.requests - 1)))):
            if now < HOUR:
                found.append((now, session, service, dice.uniform(shape.least, shape.most)))
            now += dice.expovariate(1 / shape.pause)
    return [
        Request(number, service, at / compression, seconds / compression, session)
        for number, (at, session, service, seconds) in enumerate(sorted(found))
    ]
