"""Reports of gateways: one gate at one time, and one line of a gateway's stream of states.

A gateway reports each gate under its own name. The name is `SERVICE/MODEL` for the gate of a model. It is
`SERVICE` for the requests of a service with several models whose model the gateway could not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from daybreak.api.common.unstructured import mapping, text, whole
from daybreak.protocol import tallies
from daybreak.protocol.tallies import Tallies

_MOST_CLUSTERS = 32
"""Maximum number of RayClusters that a gateway may report for a gate: those in use and those that drain."""
_LONGEST_NAME = 253
_LONGEST_IDLE_MS = 10 * 366 * 86_400_000
"""Ten years. A longer time is not plausible, and would be too large for a duration."""
_LONGEST_HOLD_MS = 24 * 60 * 60 * 1000
"""One day. A longer hold counts as one day."""


@dataclass(frozen=True, slots=True)
class Report:
    """One gate as one gateway observes it, at one time."""

    epoch: int
    """The gate's epoch that this gateway has applied."""
    gate: str
    """State of the gate in this gateway: `open`, `closed` or `failed`."""
    arrivals: int
    """Requests that arrived since this gateway started."""
    held: int
    in_flight: int
    """Requests that have passed the gate and have not ended, streams included."""
    idle_ms: int
    """Milliseconds since the last arrival or end. Never more than the actual time."""
    servers_up: int
    """Servers that answer."""
    clusters: tuple[str, ...] | None = None
    """The RayClusters that receive the gate's requests, or still have some, or None if unknown."""
    held_ms: int | None = None
    """Waiting time of the oldest held request in milliseconds, or None without one, or if unreported."""

    def wire(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "epoch": self.epoch,
            "gate": self.gate,
            "arrivals": self.arrivals,
            "held": self.held,
            "in_flight": self.in_flight,
            "idle_ms": self.idle_ms,
            "servers_up": self.servers_up,
            "clusters": None if self.clusters is None else list(self.clusters),
            "held_ms": self.held_ms,
        }

    @classmethod
    def parse(cls, found: Any) -> Self:
        """Parse the JSON form. Missing and invalid values become zero or empty."""
        row = mapping(found)
        return cls(
            epoch=whole(row.get("epoch")),
            gate=text(row.get("gate")),
            arrivals=whole(row.get("arrivals")),
            held=whole(row.get("held")),
            in_flight=whole(row.get("in_flight")),
            idle_ms=min(whole(row.get("idle_ms")), _LONGEST_IDLE_MS),
            servers_up=whole(row.get("servers_up")),
            clusters=_clusters(row.get("clusters")),
            held_ms=_held_ms(row.get("held_ms")),
        )


@dataclass(frozen=True)
class Update:
    """One line of a gateway's stream of states: JSON, terminated by a newline."""

    boot: str
    """Identifier that changes when the gateway's HAProxy restarts, which also resets its counters."""
    full: bool
    """True if the line has all gates. Otherwise it has those that changed since the previous line."""
    services: Mapping[str, Report]
    """Reports by the names of gates."""
    routes: Tallies | None = None
    """Tallies of the backends of all routes, or None if unchanged."""
    short: bool = False
    """True if the gateway is nearly full: its connections or its memory."""
    enforced: bool | None = None
    """False if the gateway reached a port that NetworkPolicies forbid it, or None if it does not know."""

    def wire(self) -> dict[str, Any]:
        """Return the JSON form."""
        found: dict[str, Any] = {
            "boot": self.boot,
            "full": self.full,
            "services": {name: report.wire() for name, report in self.services.items()},
        }
        if self.routes is not None:
            found["routes"] = {name: tally.wire() for name, tally in self.routes.items()}
        if self.short:
            found["short"] = True
        if self.enforced is not None:
            found["enforced"] = self.enforced
        return found

    @classmethod
    def parse(cls, found: Any) -> Self:
        """Parse the JSON form."""
        row = mapping(found)
        return cls(
            boot=text(row.get("boot")),
            full=row.get("full") is True,
            services={name: Report.parse(item) for name, item in mapping(row.get("services")).items()},
            routes=tallies.parse(row["routes"]) if "routes" in row else None,
            short=row.get("short") is True,
            enforced=row["enforced"] if isinstance(row.get("enforced"), bool) else None,
        )


def _held_ms(value: Any) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return min(value, _LONGEST_HOLD_MS) if known else None


def _clusters(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list) or len(value) > _MOST_CLUSTERS:
        return None
    return tuple(each for each in value if isinstance(each, str) and len(each) <= _LONGEST_NAME)
