"""docs/benchmarks.md: what was measured last, and what was wanted."""

import ast
import json
from pathlib import Path

from bench import report
from bench.names import NAMES

HEAD = """\
<!-- Made by `make generate` from bench/results; do not edit. -->
# Benchmarks
What was measured last, beside what was wanted. `make bench` measures it anew; the single runs are in
`bench/results/`. Times say as much of the machine as of Daybreak, and a shared machine is half as quick in
one hour as in another: ratios to something that ran beside it, in the same run, say more.

"""


def benchmarks_md() -> str:
    """The whole page: every measurement that has a result, in the order in which they run."""
    found = [name for name in NAMES if _result(name).exists()]
    return HEAD + "\n".join(_section(name) for name in found)


def _section(name: str) -> str:
    result = json.loads(_result(name).read_text())
    title, _, rest = _docstring(name).partition("\n\n")
    cores, kubernetes = result["machine"]["cores"], result["versions"]["kubernetes"]
    lines = [f"## {title.rstrip('.')}", *([rest, ""] if rest else [])]
    lines += [f"`{result['command']}` on {cores} cores, Kubernetes {kubernetes}.", ""]
    lines += ["| measure | figure | goal |", "| --- | --- | --- |"]
    lines += [row(key, value, result["goals"].get(key)) for key, value in result["measures"].items()]
    lines += ["", result["notes"], ""]
    return "\n".join(lines)


def row(key: str, value: float, goal: report.Goal | None) -> str:
    """A measure's line of the table."""
    words = {"max": "at most", "min": "at least"}
    wanted = " and ".join(f"{words[kind]} {limit:g}" for kind, limit in (goal or {}).items())
    missed = "" if goal is None or report.met(value, goal) else ": **missed**"
    figure = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"| {key} | {figure} | {wanted}{missed} |"


def _result(name: str) -> Path:
    return report.RESULTS / f"{name}.json"


def _docstring(name: str) -> str:
    """A measurement's own words on what it does; read, since to import it means to import the cluster."""
    return ast.get_docstring(ast.parse((report.RESULTS.parent / f"{name}.py").read_text())) or name
