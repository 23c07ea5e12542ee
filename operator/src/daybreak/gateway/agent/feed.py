"""Feed of gate states: HAProxy's counts, polled often and sent to followers."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from daybreak.gateway.haproxy.runtime import RuntimeApiError
from daybreak.gateway.hold.process import Gateway
from daybreak.gateway.hold.table import SlotState
from daybreak.protocol.reports import Report, Update
from daybreak.protocol.tallies import Tallies

LOOK_SECONDS = 0.08
"""Seconds between two polls of changes; followers receive a change within 100 ms."""
WHOLE_SECONDS = 60.0
"""Seconds between two polls of all gates, in case a change was lost. With a thousand services HAProxy
responds for 50 ms, and serves no request during that time."""
REMOVAL_SECONDS = 1.0
"""Seconds until a removed service is reported; many removals share one full report."""
POKED_SECONDS = 0.01
"""Minimum seconds between two polls."""
BEAT_SECONDS = 0.9
"""Maximum seconds without a line to followers."""
STALE_SECONDS = 1.0
"""Seconds without a response of HAProxy after which nothing is sent: old counts must not look current."""
IDLE_SLACK_MS = 500
"""Minimum change of the last arrival or end, in milliseconds, that is reported without a change of another
count."""

log = structlog.get_logger("daybreak.gateway")


@dataclass(frozen=True, slots=True)
class _SlotSnapshot:
    state: SlotState
    at: float
    """Time of the state on the monotonic clock."""
    number: int
    """Number of the poll with the latest reportable change."""
    last_reported: float
    """Time of the last arrival or end in that poll."""


class Feed:
    """Latest state of every gate, with a stream of changes for followers.

    A slow follower misses nothing: it receives the latest state of every gate that changed since its previous
    line, so nothing accumulates for it.
    """

    def __init__(self, gateway: Gateway, clock: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._clock = clock
        self._observed: dict[str, _SlotSnapshot] = {}
        """States by gate name, the latest changes last."""
        self._number = 0
        self._removed = 0
        """Number of the poll that last detected a removed service."""
        self._sequence = 0
        self._whole_at = float("-inf")
        self._poked = asyncio.Event()
        self._news = asyncio.Event()
        self._tallies: Tallies | None = None
        self._tallied = 0
        """Number of changes of the tallies."""
        self.boot = ""
        self.received = float("-inf")
        """Time of HAProxy's latest response, on the monotonic clock."""

    @property
    def age(self) -> float:
        """Seconds since HAProxy responded; infinite before the first response."""
        return self._clock() - self.received

    @property
    def states(self) -> Mapping[str, SlotState]:
        """Latest state of every gate, by name."""
        return {name: observed.state for name, observed in self._observed.items()}

    def notify(self, tallies: Tallies) -> None:
        """Update the counts of routes' backends. They are sent with the next line, at most once in a beat."""
        if tallies != self._tallies:
            self._tallies, self._tallied = tallies, self._tallied + 1

    def poke(self, taken_away: bool) -> None:
        """Poll at once after a configuration change, or poll all gates soon after a removed service."""
        if taken_away:
            self._whole_at = min(self._whole_at, self._clock() - WHOLE_SECONDS + REMOVAL_SECONDS)
        else:
            self._poked.set()

    async def run(self) -> None:
        """Poll until canceled."""
        failed = False
        while True:
            self._poked.clear()
            try:
                await self.look()
                failed = False
            except RuntimeApiError as error:
                if not failed:
                    log.warning("Failed to read HAProxy's state", error=str(error))
                failed = True
            await asyncio.sleep(POKED_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._poked.wait()

    async def look(self) -> None:
        """Poll once. Raises RuntimeApiError."""
        now = self._clock()
        whole = now - self._whole_at >= WHOLE_SECONDS
        sequence, snapshot = await self._gateway.changes(0 if whole else self._sequence)
        self._sequence, self.boot, self.received = sequence, snapshot.boot, self._clock()
        self._number += 1
        states = {state.name: state for state in snapshot.slots.values()}
        news = False
        if whole:
            self._whole_at = now
            for name in self._observed.keys() - states.keys():
                del self._observed[name]
                self._removed, news = self._number, True
        for state in states.values():
            news |= self._take(state)
        if news:
            self._news.set()
            self._news = asyncio.Event()

    async def updates(self) -> AsyncIterator[Update]:
        """Yield all services, then changes as they occur; at least one update a second, possibly empty."""
        reported, tallied = self._number, self._tallied
        yield replace(self.update(-1), routes=self._tallies)
        while True:
            news = self._news
            if not self._changed_since(reported):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_SECONDS):
                        await news.wait()
            if self.age > STALE_SECONDS:
                await asyncio.sleep(LOOK_SECONDS)
                continue
            since, reported = reported, self._number
            update = self.update(since)
            if tallied != self._tallied:
                tallied, update = self._tallied, replace(update, routes=self._tallies)
            yield update

    def update(self, since: int) -> Update:
        """Return the changes after a poll, or the full state if a service was removed.

        Only the full state reports removals.
        """
        full = since < self._removed or since < 0
        now, services = self._clock(), {}
        for name, observed in reversed(self._observed.items()):
            if not full and observed.number <= since:
                break
            report = _report(observed.state)
            passed = int(1000 * (now - observed.at))
            held_ms = report.held_ms + passed if report.held_ms is not None else None
            services[name] = replace(report, idle_ms=report.idle_ms + passed, held_ms=held_ms)
        return Update(boot=self.boot, full=full, services=services)

    def _changed_since(self, reported: int) -> bool:
        latest = next(reversed(self._observed.values()), None)
        return self._removed > reported or (latest is not None and latest.number > reported)

    def _take(self, state: SlotState) -> bool:
        """Store a state. Returns True if it is worth reporting."""
        before = self._observed.get(state.name)
        last = self.received - state.idle_ms / 1000
        news = (
            before is None
            or _counts(before.state) != _counts(state)
            or last - before.last_reported > IDLE_SLACK_MS / 1000
        )
        if news:
            self._observed.pop(state.name, None)
            self._observed[state.name] = _SlotSnapshot(state, self.received, self._number, last)
        elif before is not None:
            self._observed[state.name] = replace(before, state=state, at=self.received)
        return news


def _counts(state: SlotState) -> Report:
    """Return the parts of a state that change only with an event."""
    return replace(_report(state), idle_ms=0, held_ms=None)


def _report(state: SlotState) -> Report:
    return Report(
        epoch=state.epoch,
        gate=state.gate.value,
        arrivals=state.arrivals,
        held=state.held,
        held_ms=state.held_ms if state.held else None,
        in_flight=state.in_flight,
        idle_ms=state.idle_ms,
        servers_up=state.servers_up,
        clusters=state.clusters,
    )
