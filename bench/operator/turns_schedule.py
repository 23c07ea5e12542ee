"""Schedule of a planner that knows all arrivals of the hour, and the GPU time that it uses.

Each GPU holds one service, which computes one request at a time, and each service has at most one GPU. To
give the GPU to another service takes a wake and no other time: detection, pod deletion and scheduling are
free. A wake may begin before the arrival of its request. The next service is the one with the most work that
has arrived, or arrives during its wake and for a time after that (`ahead`). The service gets a GPU between
two requests under two conditions. Its work must exceed that of the GPU's current service by a factor
(`gain`). The current service must also be idle or have had its turn (`turn`). The hour runs with each
combination from a table of the three parameters, and the best one counts. That is no proven optimum.
`unlimited` is a bound that no schedule can exceed: one GPU for each service, always awake.
"""

import itertools
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.operator.turns_arrivals import Request

STEP = 0.1
"""Seconds between two decisions."""
AHEAD = (0.0, 2.0, 5.0, 10.0, 20.0, 40.0)
GAIN = (1.0, 1.5, 2.5)
TURN = (5.0, 10.0, 20.0, 40.0, float("inf"))


@dataclass(frozen=True)
class Fleet:
    """GPUs and wake time that a schedule can use."""

    gpus: int
    wake: float
    """Seconds until a service that gets a GPU answers."""


@dataclass(frozen=True)
class Schedule:
    """Results of one schedule."""

    busy: float
    """Seconds for which GPUs computed within the hour, summed over all GPUs."""
    longest_wait: float
    wakes: int
    ends: float
    """Time of the last answer."""


@dataclass
class _Gpu:
    service: int | None = None
    ready: float = float("-inf")
    ends: float = float("-inf")
    """Time at which the current request is complete."""


class _Work:
    """Arriving work of one service over time."""

    def __init__(self, requests: Iterable[Request]) -> None:
        own = list(requests)
        self._at = [request.at for request in own]
        self._sums = [0.0, *itertools.accumulate(request.seconds for request in own)]

    def until(self, moment: float) -> float:
        """Return the seconds of all work that has arrived by a time."""
        return self._sums[bisect_right(self._at, moment)]


def omniscient(requests: Sequence[Request], fleet: Fleet, hour: float) -> Schedule:
    """Return the best schedule of all rules: the one with the most compute time within the hour."""
    rules = itertools.product(AHEAD, GAIN, TURN)
    found = (play(requests, fleet, hour, *rule) for rule in rules)
    return max(found, key=lambda schedule: (schedule.busy, -schedule.longest_wait))


def unlimited(requests: Sequence[Request], hour: float) -> float:
    """Return the seconds computed within the hour if no request waited."""
    return sum(within(request.at, request.at + request.seconds, hour) for request in requests)


def within(begin: float, end: float, hour: float) -> float:
    """Return the seconds of a span that lie within the hour."""
    return max(0.0, min(end, hour) - max(begin, 0.0))


def play(
    requests: Sequence[Request], fleet: Fleet, hour: float, ahead: float, gain: float, turn: float
) -> Schedule:
    """Simulate the hour with one rule."""
    services = sorted({request.service for request in requests})
    work = {name: _Work(each for each in requests if each.service == name) for name in services}
    taken = dict.fromkeys(services, 0.0)
    queues: dict[int, deque[Request]] = {name: deque() for name in services}
    gpus = [_Gpu() for _ in range(fleet.gpus)]
    coming = deque(requests)
    busy, longest, wakes, ends, now = 0.0, 0.0, 0, 0.0, -fleet.wake

    def ahead_of(service: int) -> float:
        return work[service].until(now + fleet.wake + ahead) - taken[service]

    while coming or any(queues.values()):
        while coming and coming[0].at <= now:
            queues[coming[0].service].append(coming.popleft())
        for gpu in gpus:
            if now < max(gpu.ready, gpu.ends):
                continue
            queue = queues[gpu.service] if gpu.service is not None else deque[Request]()
            if not queue or now - gpu.ready >= turn:
                held = {each.service for each in gpus}
                others = [service for service in services if service not in held]
                best = max(others, key=ahead_of, default=None)
                own = ahead_of(gpu.service) if gpu.service is not None else 0.0
                if best is not None and ahead_of(best) > gain * own:
                    gpu.service, gpu.ready = best, now + fleet.wake
                    wakes += 1
                    continue
            if queue:
                request = queue.popleft()
                taken[request.service] += request.seconds
                longest = max(longest, now - request.at)
                busy += within(now, now + request.seconds, hour)
                gpu.ends = now + request.seconds
                ends = max(ends, gpu.ends)
        now += STEP
    return Schedule(busy, longest, wakes, ends)
