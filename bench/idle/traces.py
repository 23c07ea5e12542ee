"""Synthetic arrivals of requests at one model in published shapes, reproducible by seed."""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile

HOUR = 3600.0
DAY = 24 * HOUR
LENGTH = 14 * DAY
"""Length of each trace."""

Trace = Callable[[random.Random], Iterator[float]]
"""Arrival times in seconds from the beginning, in order and without an end."""


def poisson(every: float) -> Trace:
    """Return independent arrivals with this average distance in seconds."""

    def arrivals(dice: random.Random) -> Iterator[float]:
        now = 0.0
        while True:
            now += dice.expovariate(1 / every)
            yield now

    return arrivals


def bursts(on: float, off: float, every: float) -> Trace:
    """Return sessions with arrivals, given the average seconds of a session and of the pause between two."""

    def arrivals(dice: random.Random) -> Iterator[float]:
        now = 0.0
        while True:
            end = now + dice.expovariate(1 / on)
            while now < end:
                yield now
                now += dice.expovariate(1 / every)
            now += dice.expovariate(1 / off)

    return arrivals


def gamma(every: float, variation: float) -> Trace:
    """Return gaps of a gamma distribution with this mean and coefficient of variation."""
    shape = 1 / variation**2

    def arrivals(dice: random.Random) -> Iterator[float]:
        now = 0.0
        while True:
            now += dice.gammavariate(shape, every / shape)
            yield now

    return arrivals


def heavy(shortest: float, exponent: float) -> Trace:
    """Return gaps of a Pareto distribution: most are short, and a few are longer than all others together."""

    def arrivals(dice: random.Random) -> Iterator[float]:
        now = 0.0
        while True:
            now += min(shortest * dice.paretovariate(exponent), 7 * DAY)
            yield now

    return arrivals


def timer(every: float, jitter: float = 1.0) -> Trace:
    """Return arrivals at regular times with a small jitter."""

    def arrivals(dice: random.Random) -> Iterator[float]:
        number = 0
        while True:
            number += 1
            yield number * every + dice.uniform(0, jitter)

    return arrivals


def daily(inner: Trace, low: float, weekend: float = 1.0) -> Trace:
    """Return a trace thinned to these fractions at night and at weekends."""

    def arrivals(dice: random.Random) -> Iterator[float]:
        for now in inner(dice):
            wave = (1 - math.cos(2 * math.pi * (now % DAY) / DAY)) / 2
            share = low + (1 - low) * wave
            if now // DAY % 7 >= 5:
                share *= weekend
            if dice.random() < share:
                yield now

    return arrivals


def changing(*parts: Trace) -> Trace:
    """Return several traces in sequence, each for an equal part of the whole length."""

    def arrivals(dice: random.Random) -> Iterator[float]:
        part = LENGTH / len(parts)
        for number, trace in enumerate(parts):
            for now in takewhile(lambda each: each < part, trace(dice)):
                yield number * part + now
        yield from (LENGTH * 2 + now for now in parts[-1](dice))

    return arrivals


SYNTHETIC: Mapping[str, Trace] = {
    "poisson, every 3 minutes": poisson(180),
    "poisson, every 12 minutes": poisson(12 * 60),
    "poisson, every hour": poisson(HOUR),
    "poisson, every 6 hours": poisson(6 * HOUR),
    "sessions of 20 minutes every 2 hours": bursts(20 * 60, 2 * HOUR, 60),
    "sessions of an hour, twice a day": bursts(HOUR, 11 * HOUR, 120),
    "sessions of 3 minutes every 20 minutes": bursts(180, 20 * 60, 30),
    "by day, every 5 minutes": daily(poisson(300), 0.02, 0.2),
    "by day, every minute": daily(poisson(60), 0.01, 0.1),
    "pareto 1.1 from 30 seconds": heavy(30, 1.1),
    "pareto 0.8 from 60 seconds": heavy(60, 0.8),
    "a timer every 20 minutes": timer(20 * 60),
    "a timer every hour": timer(HOUR),
    "from every 4 minutes to every 5 hours": changing(poisson(240), poisson(5 * HOUR)),
    "sessions, then every 12 minutes, then sessions": changing(
        bursts(20 * 60, 2 * HOUR, 60), poisson(12 * 60), bursts(20 * 60, 2 * HOUR, 60)
    ),
}
"""Shapes that are not from a publication."""


def functions(number: int, dice: random.Random) -> Trace:
    """Return an application with the shape of Azure Functions in 2019.

    45 % of the applications are called at most once per hour on average, 81 % at most once per minute.
    Source: Shahrad et al., Serverless in the Wild, USENIX ATC 2020. A sixth of the functions have timers.
    Applications with more than one call per minute never sleep with any idle time, and are omitted.
    """
    share = dice.random() * 0.81
    if share < 0.45:
        every = math.exp(dice.uniform(math.log(HOUR), math.log(2 * DAY)))
    else:
        every = math.exp(dice.uniform(math.log(60), math.log(HOUR)))
    if number % 6 == 0:
        return timer(every)
    variation = dice.choice((0.7, 1.0, 1.5, 3.0))
    inner = gamma(every, variation)
    return daily(inner, 0.3) if number % 2 else inner


def language_models(dice: random.Random) -> Trace:
    """Return a model with the shape of BurstGPT, at rates at which a model may sleep.

    BurstGPT (Wang et al., 2024) covers GPT services on Azure over 213 days. Gaps have a gamma distribution,
    burstier than Poisson, and depend on the time of day and the working day.
    """
    every = math.exp(dice.uniform(math.log(30), math.log(20 * 60)))
    return daily(gamma(every, dice.choice((1.5, 2.0, 3.0))), 0.05, 0.4)


def until(trace: Trace, seed: int, length: float = LENGTH) -> list[float]:
    """Return the arrivals of a trace before `length`."""
    return list(takewhile(lambda now: now < length, trace(random.Random(seed))))  # noqa: S311 -- made up
