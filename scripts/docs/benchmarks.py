"""Page docs/benchmarks.md: latest measurements with their goals."""

import ast
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench import report
from bench.names import NAMES

HEAD = """\
<!-- Made by `make generate` from bench/results; do not edit. -->
# Benchmarks
This page compares the latest measurements with their goals. `make bench` repeats the measurements;
`bench/results/` contains the single runs. Times depend on the machine as much as on Daybreak, and the speed
of a shared machine can halve from one hour to the next. Ratios to a reference measured in the same run are
therefore more reliable.

"""


def benchmarks_md() -> str:
    """Return the page docs/benchmarks.md: every measurement with a result, in the order of the runs."""
    found = [name for name in NAMES if _result(name).exists()]
    on_gpus = [json.loads(file.read_text()) for file in sorted(report.RESULTS.glob("gpu-*.json"))]
    sections = [_section(name) for name in found]
    sections += [_gpu_kind(each)(each) for each in on_gpus]
    return HEAD + "\n".join(sections)


def _gpu_kind(result: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], str]:
    """Return the section function for a result, by its keys.

    Results of bench.gpu.tune have steps, those of bench.gpu have a table of paths.
    """
    if "steps" in result:
        return tuning_section
    return gpu_section if "table" in result else batch_section


def _section(name: str) -> str:
    result = json.loads(_result(name).read_text())
    title, _, rest = _docstring(name).partition("\n\n")
    cores, kubernetes = result["machine"]["cores"], result["versions"]["kubernetes"]
    lines = [f"## {title.rstrip('.')}", *([rest, ""] if rest else [])]
    lines += [f"`{result['command']}` on {cores} cores, Kubernetes {kubernetes}.", ""]
    lines += ["| Measure | Result | Goal |", "| --- | --- | --- |"]
    lines += [row(key, value, result["goals"].get(key)) for key, value in result["measures"].items()]
    lines += ["", result["notes"], ""]
    return "\n".join(lines)


_COLUMNS = {
    "path": "path",
    "clients": "clients",
    "requests_per_second": "requests/s",
    "tokens_per_second": "tokens/s",
    "ttft_p50_ms": "TTFT p50, ms",
    "ttft_p95_ms": "TTFT p95, ms",
    "tpot_p50_ms": "TPOT p50, ms",
    "cores_in_front": "CPU cores before the engine",
    "errors": "errors",
}
"""Column titles of the table of paths measured on GPUs, by key of the result."""


GPU_PATHS = (
    "Paths: `vllm` is `vllm serve` alone. `serve` is the generated Serve application, reached through "
    "Serve's proxy and ingress; `gateway` is the same path behind Daybreak's gateway. `direct` is the direct "
    "port of a replica; `gateway_direct` is the same path behind Daybreak's gateway, as clients of an "
    "LLMService use it."
)


def gpu_section(result: Mapping[str, Any]) -> str:
    """Return the section with the results of `make gpu-check` on one machine."""
    lines = [f"## {result['title']}", ""]
    lines += [f"`{result['command']}` on {result['machine']['words']}."]
    if not result["complete"]:
        lines += ["", "Not complete: the machine was lost before the end, or a step failed."]
    lines += ["", f"| {' | '.join(_COLUMNS.values())} |", "|" + " --- |" * len(_COLUMNS)]
    lines += ["| " + " | ".join(_cell(each[key]) for key in _COLUMNS) + " |" for each in result["table"]]
    if result["measures"]:
        lines += [
            "",
            f"Measures of the path `{result['path']}`:",
            "",
            "| Measure | Result | Goal |",
            "| --- | --- | --- |",
        ]
        lines += [row(key, value, result["goals"].get(key)) for key, value in result["measures"].items()]
    lines += [f"\n**Failed:** {failure.splitlines()[0]}" for failure in result["failures"]]
    lines += ["", GPU_PATHS]
    if notes := result.get("notes"):
        lines += ["", notes]
    lines += ["", "Differences from the sample: " + ", ".join(result["changes"]) + ".", ""]
    lines += ["Versions: " + ", ".join(f"{name} {is_}" for name, is_ in result["versions"].items()) + ".", ""]
    return "\n".join(lines)


def batch_section(result: Mapping[str, Any]) -> str:
    """Return the section with the results of `python -m bench.gpu.batch` on one machine."""
    lines = [f"## {result['title']}", "", f"`{result['command']}` on {result['machine']}."]
    if not result["complete"]:
        lines += ["", "Not complete: the machine was lost before the end, or a run failed."]
    lines += ["", "| Method | Rows | Seconds | Rows/s |", "| --- | --- | --- | --- |"]
    for run in result["runs"]:
        cells = run["way"], f"{run['rows']:,}", _figure(run["seconds"]), _figure(run["rows_per_second"])
        lines.append(f"| {' | '.join(cells)} |")
    if result["measures"]:
        lines += ["", "| Measure | Result | Goal |", "| --- | --- | --- |"]
        lines += [row(key, value, result["goals"].get(key)) for key, value in result["measures"].items()]
    if notes := result.get("notes"):
        lines += ["", notes]
    lines += ["", "Versions: " + ", ".join(f"{name} {is_}" for name, is_ in result["versions"].items()) + "."]
    return "\n".join([*lines, ""])


def tuning_section(result: Mapping[str, Any]) -> str:
    """Return the section with the results of `python -m bench.gpu.tune` on one machine."""
    lines = [f"## {result['title']}", "", f"`{result['command']}` on {result['machine']}.", ""]
    lines += [f"| {' | '.join(_TUNING_COLUMNS)} |", "|" + " --- |" * len(_TUNING_COLUMNS)]
    lines += ["| " + " | ".join(_tuning_cells(step)) + " |" for step in result["steps"]]
    if best := result.get("best"):
        words = f"Best: {_settings(best)}, {_figure(best['requests_per_second'])} requests/s"
        if gain := result.get("gain"):
            sure = "beyond noise" if gain.get("significant", gain.get("certain")) else "within noise"
            words += f", {gain['ratio']:.2f} times the baseline, {sure} (± {gain['noise']:.2f})"
        lines += ["", f"{words}."]
    lines += ["", f"Reason for the end: {result['stopped']}. Engine starts: {result['engineStarts']}."]
    lines += [f"Noise of one window: {100 * result['noise']:.1f} %."]
    if notes := result.get("notes"):
        lines += ["", notes]
    lines += [
        "",
        "Versions: " + ", ".join(f"{name} {is_}" for name, is_ in result["versions"].items()) + ".",
        "",
    ]
    return "\n".join(lines)


_TUNING_COLUMNS = (
    "settings",
    "clients",
    "requests/s",
    "tokens/s",
    "TTFT p50, ms",
    "TTFT p95, ms",
    "TPOT p50, ms",
    "failed",
)


def _tuning_cells(step: Mapping[str, Any]) -> list[str]:
    if "failure" in step:
        return [_settings(step), f"did not start: {step['failure'].splitlines()[0]}", *[""] * 6]
    figures = [step["requests_per_second"], step["tokens_per_second"]]
    figures += [step["ttft_ms"]["p50"], step["ttft_ms"]["p95"], step["tpot_ms"]["p50"], step["errors"]]
    load = str(step["clients"]) if "clients" in step else f"{step['rate']:g} requests/s sent"
    return [_settings(step), load, *map(_figure, figures)]


def _settings(step: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in step["settings"].items()) or "as generated"


def _cell(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str) else _figure(value)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def row(key: str, value: float, goal: report.Goal | None) -> str:
    """Return the table row of a measure."""
    words = {"max": "at most", "min": "at least"}
    desired = " and ".join(f"{words[kind]} {limit:g}" for kind, limit in (goal or {}).items())
    missed = "" if goal is None or report.met(value, goal) else ": **missed**"
    return f"| {key} | {_figure(value)} | {desired}{missed} |"


def _result(name: str) -> Path:
    return report.RESULTS / f"{name}.json"


def _docstring(name: str) -> str:
    """Return the docstring of a measurement's module without importing it, which would import the cluster."""
    source = report.RESULTS.parents[1] / f"{NAMES[name].replace('.', '/')}.py"
    return ast.get_docstring(ast.parse(source.read_text())) or name
