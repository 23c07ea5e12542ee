"""The schedule of somebody who knows all arrivals of the hour beforehand, and what it keeps busy.

Each GPU holds one service, which computes one request at a time, and each service has one GPU at most. To put
another one there takes a wake and nothing else: no time passes until somebody notices, pods go, or the
scheduler looks. A wake may begin before the request comes for which it is. Of the others the service is next
with the most work that has come, or will come while it wakes and for some time beyond that (`ahead`). It
gets a GPU between two requests when that is more than the GPU's own service has, by a factor (`gain`), and
this one has nothing to do or has had its turn (`turn`). The hour is played with each of a table of the three,
and the best one counts. That is no proven optimum. A bound that no schedule can pass is `unlimited`: a GPU
for each service, always awake.
"""

import itertools
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.operator.turns_arrivals import Request

STEP = 0.1
"""Seconds between two looks."""
AHEAD = (0.0, 2.0, 5.0, 10.0, 20.0, 40.0)
GAIN = (1.0, 1.5, 2.5)
TURN = (5.0, 10.0, 20.0, 40.0, float("inf"))


@dataclass(frozen=True)
class Fleet:
    """What there is to serve with."""

    gpus: int
    wake: float
    """Seconds until a service that gets a GPU answers."""


@dataclass(frozen=True)
class Schedule:
    """What came of one."""

    busy: float
    """Seconds for which GPUs computed within the hour, all together."""
    longest_wait: float
    wakes: int
    ends: float
    """When the last request was answered."""


@dataclass
class _Gpu:
    service: int | None = None
    ready: float = float("-inf")
    ends: float = float("-inf")
    """When it is done with the request that it computes."""


class _Work:
    """What comes to one service, by time."""

    def __init__(self, requests: Iterable[Request]) -> None:
        own = list(requests)
        self._at = [request.at for request in own]
        self._sums = [0.0, *itertools.accumulate(request.seconds for request in own)]

    def until(self, moment: float) -> float:
        """Seconds of all that has come until then."""
        return self._sums[bisect_right(self._at, moment)]


def omniscient(requests: Sequence[Request], fleet: Fleet, hour: float) -> Schedule:
    """The best one found: who computes most within the hour."""
    rules = itertools.product(AHEAD, GAIN, TURN)
    found = (play(requests, fleet, hour, *rule) for rule in rules)
    return max(found, key=lambda schedule: (schedule.busy, -schedule.longest_wait))


def unlimited(requests: Sequence[Request], hour: float) -> float:
    """Seconds that would be computed within the hour if nobody ever waited."""
    return sum(within(request.at, request.at + request.seconds, hour) for request in requests)


def within(begin: float, end: float, hour: float) -> float:
    """How much of a span lies within the hour."""
    return max(0.0, min(end, hour) - max(begin, 0.0))


def play(
    requests: Sequence[Request], fleet: Fleet, hour: float, ahead: float, gain: float, turn: float
) -> Schedule:
    """The hour by one rule."""
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
