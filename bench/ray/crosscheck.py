"""Load of an LLMBenchmark, compared with `vllm bench serve`

Both load one engine in turns: `vllm serve` with the tiny model on CPUs. They use the same number of clients
in a closed loop, the same lengths of prompts and answers, and random tokens; no answer is cut short. An
LLMBenchmark counts the requests that end within a window. `vllm bench serve` sends a number of requests and
counts from the first to the last, with fewer running at the end. It sends text, whereas an LLMBenchmark sends
tokens. Both send and time a request with the same functions of vLLM, so the comparison covers everything
around them.

The measurement needs the packages of `images/ray-cpu`: the first run installs them to `.daybreak/ray-venv`.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import report
from bench.gpu import models
from bench.ray import environment as ray_environment
from cluster import paths

ROUNDS = 4
SECONDS = 15.0
FIGURES = ("requests_per_second", "ttft_p50_ms", "tpot_p50_ms")
_LIMIT_SECONDS = 900.0
_CLOSE: report.Goal = {"min": 0.9, "max": 1.1}
GOALS: Mapping[str, report.Goal] = {"requests_ratio": _CLOSE, "tpot_ratio": _CLOSE, "errors": {"max": 0}}


def main(rounds: int = ROUNDS, seconds: float = SECONDS) -> None:
    """Measure and write `bench/results/crosscheck.json`."""
    python = ray_environment.python()
    with tempfile.TemporaryDirectory(prefix="db-", dir="/tmp") as name:
        runs = _run(python, models.make("tiny", Path(name)), rounds, seconds)
    report.write(
        "crosscheck",
        f"python -m bench.ray.crosscheck --rounds {rounds} --seconds {seconds:g}",
        measures=measures(runs),
        goals=GOALS,
        runs=runs,
        notes=(
            f"Medians of {rounds} rounds. A ratio is Daybreak's figure divided by that of the other tool, in "
            "the median over the rounds. "
            "4 clients, 64 tokens in and 32 out. Load and engine share the cores."
        ),
    )


def measures(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the medians of both programs, of the ratios per round, and the number of failed requests."""
    by_way = {
        way: sorted((run for run in runs if run["way"] == way), key=lambda run: int(run["round"]))
        for way in ("ours", "vllm")
    }
    found = {
        f"{way}_{name}": report.median([run[name] for run in those])
        for way, those in by_way.items()
        for name in FIGURES
    }
    pairs = list(zip(by_way["ours"], by_way["vllm"], strict=True))
    for name in FIGURES:
        short = name.split("_")[0]
        found[f"{short}_ratio"] = report.median([one[name] / other[name] for one, other in pairs])
    return found | {"errors": sum(run["errors"] for run in runs)}


def _run(python: Path, model: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    command = [str(python), "-m", "bench.ray.crosscheck_ways", str(model), str(rounds), str(seconds)]
    process = subprocess.Popen(  # noqa: S603 -- our own program
        command,
        env=ray_environment.variables(ray_environment.ENGINE_ON_CPUS),
        cwd=paths.REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        message, _ = process.communicate(timeout=_LIMIT_SECONDS)
    finally:
        # Terminate instead of kill: the process ends the engine, which is in a separate session.
        if process.poll() is None:
            process.terminate()
            process.wait()
    if process.returncode:
        raise RuntimeError(f"the measurement ended with {process.returncode}")
    found: list[dict[str, Any]] = json.loads(message.strip().splitlines()[-1])
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each measurement")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    main(chosen.rounds, chosen.seconds)
