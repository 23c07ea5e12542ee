"""Connection to one gateway: its stream of states, kept as the last report of each gate."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple

import aiohttp
import orjson
import structlog

from daybreak.api.common import names
from daybreak.gates.traffic import SHORTEST_PAUSE, AgedReport, ModelReports, Pause, named
from daybreak.protocol.reports import Report, Update
from daybreak.protocol.tallies import Tallies

SILENCE_SECONDS = 5.0
"""Time in seconds without data after which the connection counts as lost. A gateway sends data every
second."""
RETRY_SECONDS = (0.2, 5.0)
LINE_LIMIT = 4 * 2**20
"""Maximum length of a stream's line in bytes. A thousand services take about 200 KB."""

MOST_GATES = 2048
"""Maximum number of gates that a gateway may report. Its HAProxy has capacity for 1,280."""
MOST_STARTS = 4
"""Maximum number of starts of one pod whose route reports are kept."""
NAME_LIMIT = 512
"""Maximum length of a gate's name in characters."""

Prove = Callable[[str], Awaitable[bool]]

log = structlog.get_logger("daybreak.listener")


class _LastReport(NamedTuple):
    """Last report of a gate; times are of the monotonic clock."""

    report: Report
    at: float
    """Time at which the report arrived."""
    routed: float
    """Last time at which a server was up, if the report has none."""
    pause: tuple[float, float] | None
    """Start and end of the last idle period of at least one minute that was observed completely."""


class GatewayListener:
    """Receives the reports of one gateway pod while the pod exists.

    Args:
        url: URL of the gateway's stream.
        session: Opens connections.
        on_change: Called with the names of services with a relevant change, or with None when the connection
            to the gateway is established or lost.
        prove: Returns True if a token belongs to this gateway; None accepts the gateway without a token.
    """

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        on_change: Callable[[set[str] | None], None],
        prove: Prove | None = None,
    ) -> None:
        self._url = url
        self._prove = prove
        self._session = session
        self._on_change = on_change
        self.on_tallies: Callable[[], None] | None = None
        """Called when the gateway has reported the requests of routes' backends."""
        self.short = False
        """True if the gateway last reported that it is nearly full."""
        self.on_short: Callable[[], None] | None = None
        """Called when `short` has changed."""
        self.enforced: bool | None = None
        """Last report of the gateway whether NetworkPolicies are enforced; None if unknown."""
        self.on_enforced: Callable[[], None] | None = None
        """Called when `enforced` has changed."""
        self.tallies: dict[str, Tallies] = {}
        """Reports about routes, by start of the gateway; the latest one is last."""
        self._boot = ""
        self._reports: dict[str, dict[str, _LastReport]] = {}
        """Last reports, by service and model."""
        self._doubted = False
        self.received = False
        """True if the reports are current."""
        self.tried = asyncio.Event()
        """Set after the first report or the first failed attempt."""
        self._task = asyncio.create_task(self._listen(), name=f"listen {url}")

    @property
    def kept(self) -> int:
        """Number of stored reports."""
        return sum(len(models) for models in self._reports.values())

    def observed(self, service: str) -> ModelReports | None:
        """Return the gateway's report of a service, or None without a connection."""
        if not self.received:
            return None
        now = time.monotonic()
        return {
            model: AgedReport(
                found.report,
                timedelta(seconds=now - found.at),
                _unrouted(found, now),
                _ended(found.pause, now),
            )
            for model, found in self._reports.get(service, {}).items()
        }

    async def close(self) -> None:
        """Stop listening."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _listen(self) -> None:
        pause = RETRY_SECONDS[0]
        while True:
            try:
                await self._read()
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                if self.received:
                    log.info("Gateway no longer reports", url=self._url, error=repr(error))
                if isinstance(error, ValueError):
                    self._reports = {}
            if self.received:
                pause = RETRY_SECONDS[0]
                self.received = False
                self._on_change(None)
            self.tried.set()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS[1])

    async def _read(self) -> None:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=3.0, sock_read=SILENCE_SECONDS)
        # A server that poses as a gateway must not redirect the operator.
        async with self._session.get(self._url, timeout=limits, allow_redirects=False) as stream:
            if stream.status != 200:
                raise ValueError(f"answered {stream.status}")
            if self._prove and not await self._prove(stream.headers.get(names.GATEWAY_PROOF_HEADER, "")):
                if not self._doubted:
                    log.warning("Gateway did not prove its identity, its reports are ignored", url=self._url)
                self._doubted = True
                raise ValueError("does not prove its identity")
            self._doubted = False
            while line := await stream.content.readuntil(b"\n"):
                self._take(Update.parse(orjson.loads(line)))
                if self.kept > MOST_GATES:
                    raise ValueError(f"reports more than {MOST_GATES} gates")

    def _take(self, update: Update) -> None:
        before = self._reports
        anew = update.full or update.boot != self._boot
        if anew:
            self._reports = {}
            self._boot = update.boot
        if update.routes is not None and self.tallies.get(update.boot) != update.routes:
            self._keep(update.boot, update.routes)
        if update.short != self.short:
            self.short = update.short
            if self.on_short is not None:
                self.on_short()
        if update.enforced is not None and update.enforced != self.enforced:
            self.enforced = update.enforced
            if self.on_enforced is not None:
                self.on_enforced()
        now = time.monotonic()
        changed = set()
        for name, report in update.services.items():
            if len(name) > NAME_LIMIT:
                raise ValueError("reports a name that is too long")
            service, model = named(name)
            old = before.get(service, {}).get(model)
            routed = now if old is None or old.report.servers_up else old.routed
            # A request without a report, such as before a reconnect, may have ended the idle period long ago.
            pause = None if old is None or anew else _pause(old, report, now)
            if old is None or _matters(old.report) != _matters(report) or pause is not None:
                changed.add(service)
            known = pause or (old.pause if old is not None else None)
            self._reports.setdefault(service, {})[model] = _LastReport(report, now, routed, known)
        if update.full:
            changed |= {
                name for name, models in before.items() if models.keys() - self._reports.get(name, {}).keys()
            }
        if not self.received:
            self.received = True
            self.tried.set()
            self._on_change(None)
        elif changed:
            self._on_change(changed)

    def _keep(self, boot: str, tallies: Tallies) -> None:
        if len(boot) > NAME_LIMIT:
            raise ValueError("reports a start with a name that is too long")
        self.tallies.pop(boot, None)
        while len(self.tallies) >= MOST_STARTS:
            del self.tallies[next(iter(self.tallies))]
        self.tallies[boot] = tallies
        if self.on_tallies is not None:
            self.on_tallies()


def _unrouted(received: _LastReport, now: float) -> timedelta:
    return timedelta(0) if received.report.servers_up else timedelta(seconds=now - received.routed)


def _pause(before: _LastReport, report: Report, now: float) -> tuple[float, float] | None:
    """Return the idle period that ends with a report, or None if none of at least one minute ends."""
    busy = before.report.held or before.report.in_flight
    began = before.at if busy else before.at - before.report.idle_ms / 1000
    ended = now - report.idle_ms / 1000
    requested = report.arrivals != before.report.arrivals or report.held or report.in_flight
    return (began, ended) if requested and ended - began >= SHORTEST_PAUSE.total_seconds() else None


def _ended(pause: tuple[float, float] | None, now: float) -> Pause | None:
    if pause is None:
        return None
    began, ended = pause
    return Pause(timedelta(seconds=now - began), timedelta(seconds=max(0.0, now - ended)))


def _matters(report: Report) -> tuple[object, ...]:
    """Return the parts of a report that decisions depend on.

    While the gate is open, single requests do not count.
    """
    on_the_way = report.in_flight > 0 and report.gate != "open"
    return report.epoch, report.gate, report.held > 0, report.servers_up > 0, on_the_way, report.clusters
