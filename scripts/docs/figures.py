"""Measured figures in the pages, read from the latest results."""

import json
import re
from pathlib import Path
from typing import Any

from bench import report

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/comparison.md", "docs/gpu.md", "docs/runtime.md")
"""Pages with marked figures, by path from the repository's root."""
FIGURE = re.compile(r"<!-- (?P<result>[\w-]+) (?P<measure>\w+)(?: (?P<clients>\d+))? -->[^<]*<!-- -->")
"""Pattern of a marked figure: the name of the result and the measure; on GPUs, the path and the clients."""


def page_md(name: str) -> str:
    """Return a page with every marked figure read from bench/results."""
    return FIGURE.sub(_marked, (ROOT / name).read_text())


def _marked(found: re.Match[str]) -> str:
    mark, _, _ = found[0].partition("-->")
    return f"{mark}-->{words(_value(**found.groupdict()))}<!-- -->"


def words(value: float) -> str:
    """Format a figure for readers: two significant digits, or all digits before the decimal point."""
    return str(round(value)) if value >= 10 else f"{float(f'{value:.2g}'):g}"


def _value(result: str, measure: str, clients: str | None) -> float:
    found: dict[str, Any] = json.loads((report.RESULTS / f"{result}.json").read_text())
    if clients is None:
        return float(found["measures"][measure])
    (row,) = (row for row in found["table"] if (row["path"], str(row["clients"])) == (measure, clients))
    return float(row["requests_per_second"])
