"""Page docs/metrics.md: every metric of the operator and the gateways, from the exporting code."""

import re
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from daybreak.controller import metrics as operator_metrics
from daybreak.gateway.agent.enforcement import EnforcementWatch
from daybreak.gateway.agent.feed import Feed
from daybreak.gateway.agent.fullness import FullnessWatch
from daybreak.gateway.agent.metrics import RouteMetrics, ServiceMetrics
from daybreak.kube import metrics as kube_metrics
from daybreak.loop import sleep_metrics

_SOURCES = (operator_metrics, kube_metrics, sleep_metrics)
"""Modules whose import registers the operator's metrics."""
_UNITS = {"seconds": "seconds", "bytes": "bytes"}
_PREFIX = "daybreak_"
_HEAD = """\
<!-- Made by `make generate` from the metrics' definitions; do not edit. -->
# Metrics

The operator exports its metrics on port 8080 (`/metrics`), each gateway pod on port 9180. With the Prometheus
operator, the chart value `metrics.podMonitor.enabled` creates PodMonitors for both and for Ray pods. Metrics
of Ray and vLLM keep their names.

A counter has the suffix `_total`; a histogram has the series `_bucket`, `_sum` and `_count`.
The operator's `/metrics?name[]=daybreak_writes_total` returns one metric; the parameter can be repeated.
"""


class _Row(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    about: str


def metrics_md() -> str:
    """Return the page docs/metrics.md."""
    return f"{_HEAD}\n## Operator\n\n{_table(_operator())}\n## Gateway\n\n{_table(_gateway())}"


def names() -> frozenset[str]:
    """Return the names of all metrics as stored in Prometheus."""
    return frozenset(row.name for row in (*_operator(), *_gateway()))


def _operator() -> Iterator[_Row]:
    assert _SOURCES  # noqa: S101 - the imports register the metrics
    for collector in list(REGISTRY._collector_to_names):
        if isinstance(collector, MetricWrapperBase):
            found = cast(Any, collector)
            yield _row(found._name, found._type, found._labelnames, found._documentation)
        else:
            yield from _families(collector)


def _gateway() -> Iterator[_Row]:
    fullness = FullnessWatch(cast(Any, None), cast(Any, None), lambda: (0, 0))
    enforcement = EnforcementWatch(lambda: ())
    enforcement.enforced = True
    services = ServiceMetrics(cast(Feed, SimpleNamespace(states={})))
    for collector in (services, RouteMetrics(dict), fullness, enforcement):
        yield from _families(collector)


def _families(collector: Collector) -> Iterator[_Row]:
    for family in collector.collect():
        if family.name.startswith(_PREFIX):
            yield _row(family.name, family.type, getattr(family, "_labelnames", ()), family.documentation)


def _row(name: str, kind: str, labels: Iterable[str], about: str) -> _Row:
    whole = f"{name}_total" if kind == "counter" else name
    return _Row(whole, kind, tuple(labels), about)


def _table(rows: Iterable[_Row]) -> str:
    lines = ["| Metric | Type | Labels | Unit | Meaning |", "| --- | --- | --- | --- | --- |"]
    for row in sorted(row for row in rows if row.name.startswith(_PREFIX)):
        labels = ", ".join(f"`{label}`" for label in row.labels)
        lines.append(f"| `{row.name}` | {row.kind} | {labels} | {_unit(row.name)} | {row.about} |")
    return "\n".join(lines) + "\n"


def _unit(name: str) -> str:
    words = re.split("_", name.removesuffix("_total"))
    return next((unit for word, unit in _UNITS.items() if word in words), "")
