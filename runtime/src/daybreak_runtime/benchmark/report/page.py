"""Self-contained report: an HTML page with curves and a table, and text. Pure."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from daybreak_runtime.benchmark.order import REQUESTS, Order
from daybreak_runtime.benchmark.report.picture import Curves, svg

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse}td,th{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child{text-align:left}.best{background:#eef6ee}"
)
_COLUMNS = (
    "settings",
    "load",
    "requests/s",
    "tokens/s",
    "TTFT p50/p95/p99 ms",
    "TPOT p50/p95/p99 ms",
    "latency p50/p95/p99 ms",
    "answered",
    "failed",
    "KV cache",
    "",
)
_ONE = _COLUMNS[2]


def table(found: Mapping[str, Any]) -> str:
    """Return the steps as a text table, and the verdict."""
    rows = [_COLUMNS, *(_cells(step) for step in found["steps"])]
    widths = [max(len(row[n]) for row in rows) for n in range(len(_COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([*(line.rstrip() for line in lines), verdict(found)])


def verdict(found: Mapping[str, Any]) -> str:
    """Return the verdict in one or two sentences."""
    best = found.get("best")
    if best is None:
        return f"No step keeps the limits. {found['stopped']}"
    words = f"Best: {settings(best)} at {load(best)}: {best['requests_per_second']} requests/s."
    gain = found.get("gain")
    if gain is not None and best["settings"]:
        sure = "beyond noise" if gain["significant"] else "within noise"
        words += f" {gain['ratio']:.2f} times the baseline, {sure} (± {gain['noise']:.2f})."
    return f"{words} {found['stopped']}."


def html(order: Order, found: Mapping[str, Any]) -> str:
    """Return the page."""
    head = "".join(f"<th>{escape(name)}</th>" for name in _COLUMNS)
    rows = "".join(
        f"<tr{' class=best' if step == found.get('best') else ''}>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(step))
        + "</tr>"
        for step in found["steps"]
    )
    return (
        f"<!doctype html><meta charset=utf-8><title>Benchmark</title><style>{_STYLE}</style>"
        f"<h1>Benchmark of {escape(_model(order))}</h1><p>{escape(verdict(found))}</p>"
        f"{svg(curves(order, found))}"
        f"<p>Noise of one window: {100 * found['noise']:.1f} %. {found['engineStarts']} engines were started."
        f"</p><table><tr>{head}</tr>{rows}</table>\n"
    )


def curves(order: Order, found: Mapping[str, Any]) -> Curves:
    """Return the objective of each step: over the settings of a sweep, otherwise over the load."""
    measured = [step for step in found["steps"] if "windows" in step]
    name = "requests/s" if order.objective.maximize == REQUESTS else "tokens/s"
    field = "requests_per_second" if order.objective.maximize == REQUESTS else "tokens_per_second"
    if order.sweep:
        groups = [(load_words, steps) for load_words, steps in _grouped(measured, load)]
        ticks = list(dict.fromkeys(settings(step) for step in _ordered(order, measured)))
        place = {tick: number for number, tick in enumerate(ticks)}
        drawn = [
            (words, sorted((place[settings(step)], float(step[field])) for step in steps))
            for words, steps in groups
        ]
    else:
        ticks = [load(step) for step in measured]
        drawn = [
            (settings(first), [(n, float(step[field])) for n, step in enumerate(measured)])
            for first in measured[:1]
        ]
    return Curves(ticks, drawn, name)


def settings(step: Mapping[str, Any]) -> str:
    """Return the settings of a step for display."""
    return ", ".join(f"{name}={value}" for name, value in step["settings"].items()) or "baseline"


def load(step: Mapping[str, Any]) -> str:
    """Return the load of a step for display."""
    if step.get("clients") is not None:
        return f"{step['clients']} clients"
    return f"{step['rate']:g}/s" if step.get("rate") is not None else ""


def _model(order: Order) -> str:
    return order.engine.model if order.engine is not None else order.service.model if order.service else ""


def _cells(step: Mapping[str, Any]) -> tuple[str, ...]:
    if "windows" not in step:
        return (settings(step), *[""] * 9, step["failure"].splitlines()[-1][:120] if step["failure"] else "")
    engine = step.get("engine")
    return (
        settings(step),
        load(step),
        f"{step['requests_per_second']:.2f}",
        f"{step['tokens_per_second']:.0f}",
        *("/".join(f"{step[name][p]:.0f}" for p in ("p50", "p95", "p99")) for name in _LATENCIES),
        str(step["requests"]),
        str(step["errors"]),
        f"{engine['kv_cache']:.0%}" if engine else "",
        step.get("exceeds", ""),
    )


_LATENCIES = ("ttft_ms", "tpot_ms", "latency_ms")


def _grouped(steps: Sequence[Mapping[str, Any]], words: Any) -> list[tuple[str, list[Mapping[str, Any]]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for step in steps:
        found.setdefault(words(step), []).append(step)
    return list(found.items())


def _ordered(order: Order, steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return steps in the order of the ladders, the baseline first."""

    def rank(step: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(
            dimension.values.index(step["settings"][dimension.name])
            if step["settings"].get(dimension.name) in dimension.values
            else -1
            for dimension in order.sweep
        )

    return sorted(steps, key=rank)
