"""An hour of requests to many services, a few of which get most of them: the same for the same seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

HOUR = 3600.0


@dataclass(frozen=True)
class Request:
    """One request; its times are seconds of the hour as it is played."""

    number: int
    service: int
    at: float
    """When it is sent, since the hour began."""
    seconds: float
    """How long an engine computes for it."""
    session: int = 0
    """What it is a part of."""


@dataclass(frozen=True)
class Shape:
    """What the hour is like, in seconds of a real one."""

    services: int = 20
    sessions: int = 44
    """How often somebody comes to work with one of the services: once with each, the others by popularity."""
    requests: float = 8.0
    """Of a session, on average."""
    pause: float = 12.0
    """Between two requests of a session, on average."""
    least: float = 5.0
    most: float = 25.0
    """How long an engine computes for a request."""
    skew: float = 1.5
    """The nth service gets the other sessions in proportion to 1/n to this power (Zipf)."""


def arrivals(shape: Shape, compression: float, seed: int) -> Sequence[Request]:
    """The hour's requests in the order in which they are sent, every time divided by the compression."""
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
