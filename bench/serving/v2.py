"""Dynamic batching by the Open Inference Protocol V2, and comparison with KServe's Python server

`alone` and `batched` are the sample classifier with one row for each request, without and with `batch:
{maxSize: 32, wait: 5ms}`. The classifier (`manifests/samples/applications/classifier.py`) is 5760 wide, with
66 million weights, as many as DistilBERT. Both compute on every core of the machine.

`own_port`, `proxy` and `kserve` are one linear model of ten features, with JSON in and out. The requests go
to the direct port of a Daybreak replica, to the same replica through Serve's proxy, or to KServe's Python
server with one worker. Every replica and server is one process; the client is another on the same cores.

KServe comes from PyPI and gets a separate environment, `.daybreak/kserve-venv`. Ray and the other packages
come from the lock of `images/ray-cpu` and go to `.daybreak/ray-venv`. The first run creates both.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import report
from bench.serving.load import load
from bench.serving.start import free_port, serving
from cluster import paths
from cluster.tools.programs import run

ROUNDS, SECONDS, CLIENTS = 3, 5.0, 32
KSERVE = "0.21.0"
FOLDER = paths.DAYBREAK / "kserve-venv"
WIDTH = 5760
WAYS = ("alone", "batched", "own_port", "proxy", "kserve")
GOALS: dict[str, report.Goal] = {
    "batched_to_alone": {"min": 4.0},
    "own_port_to_kserve": {"min": 1.0},
    "own_port_p99_to_kserve": {"max": 1.0},
    "proxy_to_kserve": {"min": 1.0},
    "proxy_p99_to_kserve": {"max": 1.0},
}
_START_SECONDS = 120.0
_SAID = 4000
"""Number of characters of a server's output in the error if it does not start."""


def main(
    rounds: int = ROUNDS, seconds: float = SECONDS, clients: int = CLIENTS, python: Path | None = None
) -> None:
    """Measure and write `bench/results/serving_v2.json`."""
    ports = {name: free_port() for name in ("alone", "batched", "linear", "proxy", "kserve")}
    for name in ("alone", "batched", "linear"):
        os.environ[f"BENCH_{name.upper()}_PORT"] = str(ports[name])
    wide = {"settings": {"width": WIDTH}}
    applications = {
        "alone": {"importPath": "bench.serving.apps.alone", "args": wide},
        "batched": {
            "importPath": "bench.serving.apps.batched",
            "args": {**wide, "batch": {"maxSize": 32, "wait": "5ms"}},
        },
        "linear": {"importPath": "bench.serving.apps.linear"},
    }
    targets = {
        "alone": (ports["alone"], "/v2/models/classifier/infer", _body("FP32", 64)),
        "batched": (ports["batched"], "/v2/models/classifier/infer", _body("FP32", 64)),
        "own_port": (ports["linear"], "/v2/models/linear/infer", _body("FP64", 10)),
        "proxy": (ports["proxy"], "/linear/v2/models/linear/infer", _body("FP64", 10)),
        "kserve": (ports["kserve"], "/v2/models/linear/infer", _body("FP64", 10)),
    }
    runs: list[dict[str, Any]] = []
    with _kserve(python or _made(), ports["kserve"]), serving(applications, ports["proxy"]):
        for round_ in range(rounds):
            # Rotate the order each round: a machine that slows down slows all servers.
            for way in WAYS[round_ % len(WAYS) :] + WAYS[: round_ % len(WAYS)]:
                port, path, body = targets[way]
                runs.append({"way": way, **asyncio.run(load(port, path, body, clients, seconds))})
                print(f"serving_v2: {runs[-1]}", flush=True)
    report.write(
        "serving_v2",
        f"python -m bench.serving.v2 --rounds {rounds} --seconds {seconds:g} --clients {clients}",
        measures=measures(runs),
        goals=GOALS,
        runs=runs,
        notes=f"Medians of {rounds} runs of {seconds:g} s, {clients} clients in a closed loop.",
        more_versions={"kserve": KSERVE},
    )


def measures(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the medians and their ratios."""
    found: dict[str, float] = {}
    for way in WAYS:
        for key in ("requests_per_second", "p99_ms"):
            found[f"{way}_{key}"] = report.median([run[key] for run in runs if run["way"] == way])
    found["batched_to_alone"] = found["batched_requests_per_second"] / found["alone_requests_per_second"]
    for way in ("own_port", "proxy"):
        found[f"{way}_to_kserve"] = found[f"{way}_requests_per_second"] / found["kserve_requests_per_second"]
        found[f"{way}_p99_to_kserve"] = found[f"{way}_p99_ms"] / found["kserve_p99_ms"]
    return found


def _body(datatype: str, features: int) -> bytes:
    data = [0.25 * number for number in range(features)]
    tensor = {"name": "x", "datatype": datatype, "shape": [1, features], "data": data}
    return json.dumps({"inputs": [tensor]}).encode()


def _made() -> Path:
    """Return a Python with KServe, after creating its environment if necessary."""
    python = FOLDER / "bin" / "python"
    if not (FOLDER / f".made-{KSERVE}").exists():
        uv = Path(sys.executable).parent / "uv"
        run([uv, "venv", "-q", "--clear", "--python", "3.11", FOLDER])
        run([uv, "pip", "install", "-q", "--python", python, f"kserve=={KSERVE}"])
        (FOLDER / f".made-{KSERVE}").touch()
    return python


@contextlib.contextmanager
def _kserve(python: Path, port: int) -> Iterator[None]:
    """Run KServe's server, ready to answer.

    Raises:
        RuntimeError: The server did not start; the message has the end of its output.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(  # noqa: S603 -- our own program
            [str(python), "-m", "bench.serving.model", str(port)],
            cwd=paths.REPOSITORY,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(paths.REPOSITORY)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        with _ended(process):
            until = time.monotonic() + _START_SECONDS
            while not _ready(port):
                if process.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    message = log.read().decode(errors="replace")[-_SAID:]
                    raise RuntimeError(f"KServe's server did not start: {message}")
                time.sleep(0.2)
            yield


@contextlib.contextmanager
def _ended(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """End the process and its whole session with the block."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/models/linear/ready", timeout=5):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--kserve-python", type=Path, help="has KServe (default: .daybreak/kserve-venv)")
    chosen = parser.parse_args()
    main(chosen.rounds, chosen.seconds, chosen.clients, chosen.kserve_python)
