"""Reports of gateways: one gate at one moment, and one line of a gateway's stream of states.

A gateway reports each gate under a name of its own: `SERVICE/MODEL` for the gate of a model, and `SERVICE`
for the requests of a service with several models whose model it could not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from daybreak.api.common.unstructured import mapping, text, whole
from daybreak.protocol import tallies
from daybreak.protocol.tallies import Tallies

_MOST_CLUSTERS = 32
"""RayClusters of a gate that a gateway may tell of: what goes on and what is on its way out."""
_LONGEST_NAME = 253
_LONGEST_IDLE_MS = 10 * 366 * 86_400_000
"""Ten years: what is longer is no time, and would be too large for one."""
_LONGEST_HOLD_MS = 24 * 60 * 60 * 1000
"""Who has been held for longer counts as held for a day."""


@dataclass(frozen=True, slots=True)
class Report:
    """One gate as one gateway sees it, at one moment."""

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
    """Servers that answer."""
    clusters: tuple[str, ...] | None = None
    """The RayClusters that its requests go to, or are still at; None: that is not known."""
    held_ms: int | None = None
    """Milliseconds for which the oldest that is held has waited; None: none is, or it is not told."""

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
            "clusters": None if self.clusters is None else list(self.clusters),
            "held_ms": self.held_ms,
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
            idle_ms=min(whole(row.get("idle_ms")), _LONGEST_IDLE_MS),
            servers_up=whole(row.get("servers_up")),
            clusters=_clusters(row.get("clusters")),
            held_ms=_held_ms(row.get("held_ms")),
        )


@dataclass(frozen=True)
class Update:
    """One line of a gateway's stream of states: JSON, ended by a newline."""

    boot: str
    """Changes when the gateway's HAProxy was started anew, and its counts with it."""
    full: bool
    """Whether these are all gates; else those that have changed since the line before, maybe none."""
    services: Mapping[str, Report]
    """By the names of gates."""
    routes: Tallies | None = None
    """What backends of routes have got, of all routes; None: as it was told before."""
    short: bool = False
    """Whether the gateway is nearly full: its connections or its memory."""
    enforced: bool | None = None
    """False if the gateway reached a port that NetworkPolicies forbid it, or None if it does not know."""

    def wire(self) -> dict[str, Any]:
        """In its JSON form."""
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
        """Read one back."""
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
