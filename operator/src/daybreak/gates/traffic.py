"""What gateways tell of the requests to a service: the report of one, and what all say together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from daybreak.api.common.unstructured import mapping, text, whole


@dataclass(frozen=True)
class Report:
    """One service as one gateway sees it, at one moment."""

    epoch: int
    """The gate's epoch that this gateway has carried out."""
    gate: str
    """Its state there: `open`, `closed` or `failed`."""
    arrivals: int
    """Requests that arrived since this gateway started."""
    held: int
    in_flight: int
    """Requests that have passed the gate and have not ended, streams included."""
    idle_ms: int
    """Milliseconds since the last arrival or end; never more than the truth."""
    servers_up: int
    """Serve proxies that answer."""

    def wire(self) -> dict[str, Any]:
        """In its JSON form."""
        return {
            "epoch": self.epoch,
            "gate": self.gate,
            "arrivals": self.arrivals,
            "held": self.held,
            "in_flight": self.in_flight,
            "idle_ms": self.idle_ms,
            "servers_up": self.servers_up,
        }

    @classmethod
    def parse(cls, found: Any) -> Self:
        """Read one back; what is missing or of another shape reads as nothing."""
        row = mapping(found)
        return cls(
            epoch=whole(row.get("epoch")),
            gate=text(row.get("gate")),
            arrivals=whole(row.get("arrivals")),
            held=whole(row.get("held")),
            in_flight=whole(row.get("in_flight")),
            idle_ms=whole(row.get("idle_ms")),
            servers_up=whole(row.get("servers_up")),
        )


@dataclass(frozen=True)
class Update:
    """One line of a gateway's stream of states: JSON, ended by a newline."""

    boot: str
    """Changes when the gateway's HAProxy was started anew, and its counts with it."""
    full: bool
    """Whether these are all services; else those that have changed since the line before, maybe none."""
    services: Mapping[str, Report]

    def wire(self) -> dict[str, Any]:
        """In its JSON form."""
        return {
            "boot": self.boot,
            "full": self.full,
            "services": {name: report.wire() for name, report in self.services.items()},
        }

    @classmethod
    def parse(cls, found: Any) -> Self:
        """Read one back."""
        row = mapping(found)
        return cls(
            boot=text(row.get("boot")),
            full=row.get("full") is True,
            services={name: Report.parse(item) for name, item in mapping(row.get("services")).items()},
        )


@dataclass(frozen=True)
class Seen:
    """A report, and how long ago it came."""

    report: Report
    age: timedelta
    unrouted: timedelta = timedelta(0)
    """How long it has told of no Serve proxy that answers, as far as it was heard; zero while it has one."""


@dataclass(frozen=True)
class Traffic:
    """What all gateways of the namespace say of a service together."""

    known: bool
    """Whether every gateway that may pass a request on has told of the service, and is still heard."""
    held: int = 0
    in_flight: int = 0
    idle: timedelta = timedelta(0)
    """Time since the last arrival or end anywhere."""
    acknowledged: int = -1
    """The lowest epoch that any gateway has carried out."""
    routed: bool = False
    """Whether at least one gateway has a Serve proxy that answers."""
    unrouted: timedelta = timedelta(0)
    """How long none of them has had one."""


UNKNOWN = Traffic(known=False)
"""Nobody is heard."""


def together(seen: Iterable[Seen | None]) -> Traffic:
    """Sum up gateways. None stands for one that has not told of the service, or is not heard any more."""
    rows = list(seen)
    heard = [row for row in rows if row is not None]
    if not heard:
        return UNKNOWN
    return Traffic(
        known=len(heard) == len(rows),
        held=sum(row.report.held for row in heard),
        in_flight=sum(row.report.in_flight for row in heard),
        idle=min(timedelta(milliseconds=row.report.idle_ms) + row.age for row in heard),
        acknowledged=min(row.report.epoch for row in heard),
        routed=any(row.report.servers_up for row in heard),
        unrouted=min(row.unrouted for row in heard),
    )
