"""Files of a benchmark's report, and those for the operator. Pure."""

import base64
import json
from collections.abc import Mapping

from daybreak_runtime.benchmark.order import Order
from daybreak_runtime.benchmark.progress import plain
from daybreak_runtime.benchmark.report.page import curves, html
from daybreak_runtime.benchmark.report.picture import png, svg
from daybreak_runtime.benchmark.run import Run

KEPT = ("report.html", "curve.png", "results.json")
"""Files for the operator, the most useful first; the curve is in the page too."""
KEPT_BYTES = 384 * 1024
"""Maximum bytes of the operator's files together: the final report has them in addition to the steps, and a
ConfigMap at most 1 MiB."""


def files(order: Order, run: Run) -> dict[str, bytes]:
    """Return all files by name."""
    found = plain(run.course, run.gain, run.noise.relative)
    drawn = curves(order, found)
    return {
        "results.json": json.dumps(found, indent=1).encode(),
        "report.html": html(order, found).encode(),
        "curve.svg": svg(drawn).encode(),
        "curve.png": png(drawn),
    }


def kept(written: Mapping[str, bytes], most: int = KEPT_BYTES) -> dict[str, str]:
    """Return the files for the operator within the size limit, with images as Base64."""
    found: dict[str, str] = {}
    for name in KEPT:
        content = written[name]
        text = (base64.b64encode(content) if name.endswith(".png") else content).decode()
        if len(text.encode()) <= most:
            found[name] = text
            most -= len(text.encode())
    return found
