"""Third-party programs that `bench/gateway/steady.py` runs, and the report of the load client."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.build import Binary
from cluster.paths import BIN
from cluster.tools.programs import run

MODULES = Path(__file__).resolve().parents[1] / "go"
# Separate Go modules, so that the programs are measured as their projects release them.
_KNATIVE = MODULES / "knative"
QUEUE = Binary("knative-queue", "knative.dev/serving/cmd/queue", minutes=3, module=_KNATIVE)
ACTIVATOR = Binary("knative-activator", "knative.dev/serving/cmd/activator", minutes=2, module=_KNATIVE)
BOMBARDIER = Binary("bombardier", "github.com/codesenberg/bombardier", minutes=0.3, module=MODULES / "load")

_PATIENCE_SECONDS = 10
"""Seconds that the load client waits for an answer; a longer wait is an error."""
_OTHERS = ("req1xx", "req3xx", "req4xx", "req5xx", "others")


class Failed(Exception):
    """Request without the answer 200, which voids the run."""


@dataclass(frozen=True)
class Load:
    """Results of a load client."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float


def load(url: str, headers: Sequence[str], body: Path, clients: int, seconds: float) -> Load:
    """POST the body from a number of clients, each with one request at a time over its kept-alive connection.

    Raises Failed if an answer is not a 200 in time.
    """
    command: list[str | Path] = [BIN / BOMBARDIER.name, "-c", str(clients), "-d", f"{seconds}s"]
    command += ["-t", f"{_PATIENCE_SECONDS}s", "-m", "POST", "-f", body, "-o", "json", "-p", "r", "-l"]
    for header in ("Content-Type: application/json", *headers):
        command += ["-H", header]
    return parse(run([*command, url], timeout=seconds + 3 * _PATIENCE_SECONDS))


def parse(text: str) -> Load:
    """Return the result that bombardier printed, with latencies in µs.

    Raises Failed if an answer was not a 2xx.
    """
    result = json.loads(text)["result"]
    good = result["req2xx"]
    others = {
        kind: result[kind] for kind in ("req1xx", "req3xx", "req4xx", "req5xx", "others") if result[kind]
    }
    if others or result.get("errors") or not good:
        raise Failed(f"beside {good} answers with 200: {others} {result.get('errors', '')}")
    latency = result["latency"]["percentiles"]
    return Load(good, result["timeTakenSeconds"], latency["50"] / 1000, latency["99"] / 1000)


def module_version(module: str, dependency: str) -> str:
    """Return the version of a Go module that one of Daybreak's requires.

    Raises ValueError if the module is not required.
    """
    text = (MODULES / module / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(dependency)} v(\S+)", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"{module}/go.mod does not require {dependency}")
    return found[1]


def knative_config() -> Path:
    """Return the folder with Knative Serving's manifests in the Go module cache."""
    folder, environment = MODULES / "knative", {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"}
    run(["go", "mod", "download", "knative.dev/serving"], directory=folder, environment=environment)
    command = ["go", "list", "-m", "-f", "{{.Dir}}", "knative.dev/serving"]
    return Path(run(command, directory=folder, environment=environment).strip()) / "config"
