"""Request statistics per backend in the status, written rarely because requests never end."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from daybreak.api.common.unstructured import Manifest, mapping, mappings, parse_time, whole
from daybreak.api.llmroute.counts import RouteCounts
from daybreak.api.llmroute.external import ExternalStatus
from daybreak.kinds.llmroute.decide.counting import Counted, counted_as, counts, counts_before
from daybreak.protocol.tallies import Histogram, Tally

WRITE_SECONDS = 30.0
"""Interval in seconds of status writes while requests arrive."""

_FIELDS = {
    "requests": "requests",
    "errors": "errors",
    "fallback_requests": "fallbackRequests",
    "observed_share": "observedShare",
    "ttft_p95": "ttftP95",
    "latency_p99": "latencyP99",
}
"""Statistics fields of a backend, and their names in JSON."""

Got = Mapping[str, Mapping[str, Any]]
"""Statistics fields of each backend, by `SERVICE/MODEL`."""


def got(status: Manifest, counted: Counted, now: datetime) -> tuple[Got, RouteCounts]:
    """Return the statistics of each backend and the counts behind them, unchanged until a write is due."""
    before = counts_before(status)
    if before is None or due(status, counted, now) == 0.0:
        return _fresh(counted), counts(counted, now)
    return _before(status), before


def due(status: Manifest, counted: Counted, now: datetime) -> float | None:
    """Return the seconds until a write is due, or None if there is nothing to write."""
    before = counts_before(status)
    if before is None or before.start_time != counted.since:
        return 0.0
    fresh, report = _fresh(counted), _previous_statistics(status)
    if fresh == report and tuple(before.terminated_gateways) == counted.gone:
        return None
    if any(_sent(fresh.get(name, {})) < _sent(fields) for name, fields in report.items()):
        return None  # not all gateways have reported yet
    at = parse_time(before.update_time)
    passed = (now - at).total_seconds() if at is not None else WRITE_SECONDS
    return max(0.0, WRITE_SECONDS - passed) if passed >= 0 else 0.0


def _fresh(counted: Counted) -> dict[str, dict[str, Any]]:
    every = sum(map(_kept, counted.totals.values()))
    return {name: _of(tally, every) for name, tally in counted.totals.items()}


def _kept(tally: Tally) -> int:
    return max(0, tally.sent - tally.passed_on)


def _sent(fields: Mapping[str, Any]) -> int:
    return whole(fields.get("requests")) + whole(fields.get("fallback_requests"))


def _of(tally: Tally, every: int) -> dict[str, Any]:
    found = {
        "requests": _kept(tally),
        "errors": tally.errors,
        "fallback_requests": tally.passed_on,
        "observed_share": round(_kept(tally) / every, 4) if every else 0.0,
        "ttft_p95": _seconds(tally.first, 0.95),
        "latency_p99": _seconds(tally.whole, 0.99),
    }
    return {name: value for name, value in found.items() if value is not None}


def _seconds(times: Histogram, part: float) -> float | None:
    found = times.quantile_ms(part)
    if found is None or found == float("inf"):
        return None
    return float(f"{found / 1000:.3g}")


def _before(status: Manifest) -> dict[str, dict[str, Any]]:
    """Return the statistics in a status."""
    rows = {counted_as(each): each for each in mappings(status.get("backends"))}
    if (external := external_of(status)) is not None:
        rows[external.counted_as] = mapping(status.get("externalFallback"))
    return {
        name: {field: each[key] for field, key in _FIELDS.items() if key in each}
        for name, each in rows.items()
    }


def external_of(status: Manifest) -> ExternalStatus | None:
    """Return the external model of a status, or None if it has no valid one."""
    try:
        return ExternalStatus.model_validate(status.get("externalFallback"))
    except ValidationError:
        return None


def _previous_statistics(status: Manifest) -> dict[str, dict[str, Any]]:
    """Return the statistics in a status, without backends that have received no requests."""
    return {name: fields for name, fields in _before(status).items() if _sent(fields)}
