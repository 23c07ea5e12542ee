"""Rows per second of a batch, compared with a naive loop and the engine alone

The same model answers the same rows, with log-normal answer lengths, in three ways, each in separate
processes on this machine. `naive` is the way of tutorials: a `map_batches` of Ray Data whose actor calls the
synchronous `LLM.generate` with 32 rows at a time. `plain` is one `LLM.generate` of all rows, which is the
engine alone. `batch` is the runtime of an LLMBatch, from staged rows to written parts.

The clock of each way starts when its engine takes the first row. It stops at the last answer, or for `batch`
when the last part is written. No rate therefore includes the start of the engine, and each includes slots
that fill and empty. The time of `batch` does not include what it templates and tokenizes while its engine
starts, as in a cluster.

The measurement needs the packages of `images/ray-cpu`: the first run installs them to `.daybreak/ray-venv`.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import report
from bench.gpu import models
from bench.ray import environment as ray_environment
from bench.ray.batch_ways import Settings, naive_blocks
from cluster import paths

ROUNDS = 2
ROWS = 640
"""Number of rows: a multiple of the rows in a call of the naive way."""
MEDIAN_TOKENS, SPREAD, MOST_TOKENS = 24.0, 0.9, 256
SLOTS = 32
WAYS = ("naive", "plain", "batch")
_SECONDS = 600
GOALS: dict[str, report.Goal] = {"batch_to_naive": {"min": 2.0}, "batch_to_plain": {"min": 0.9}}


def main(rounds: int = ROUNDS, rows: int = ROWS, python: Path | None = None) -> None:
    """Measure and write `bench/results/batch.json`."""
    python = python or ray_environment.python()
    runs: list[dict[str, Any]] = []
    # The folder's path is short, because Ray creates its sockets in it.
    with tempfile.TemporaryDirectory(prefix="db-", dir="/tmp") as name:
        folder = Path(name)
        model = models.make("tiny", folder)
        write_rows(folder, rows)
        args = {"model": str(model), "max_model_len": 1024, "max_num_seqs": SLOTS, "dtype": "bfloat16"}
        write_settings(folder, args)
        for round_ in range(rounds):
            # Rotate the order each round: a machine that slows down slows all ways.
            for way in WAYS[round_ % len(WAYS) :] + WAYS[: round_ % len(WAYS)]:
                runs.append({"way": way, **run(python, way, folder, ray_environment.ENGINE_ON_CPUS)})
                print(f"batch: {runs[-1]}", flush=True)
    report.write(
        "batch",
        f"python -m bench.ray.batch --rounds {rounds} --rows {rows}",
        measures=measures(runs),
        goals=GOALS,
        runs=runs,
        notes=(
            f"{rows} rows, answers of {MEDIAN_TOKENS:g} tokens in the median (log-normal, {SPREAD:g}, "
            f"at most {MOST_TOKENS}), {SLOTS} slots, batches of {Settings.batch_rows} rows, the tiny model. "
            f"Medians of {rounds} runs. The engine shares the cores with all other processes, which costs "
            "`batch` more than with a GPU."
        ),
    )


def write_settings(folder: Path, engine_args: Mapping[str, Any], **more: int) -> None:
    """Write the settings that `bench.ray.batch_ways` reads; `more` are optional ones."""
    (folder / "settings.json").write_text(json.dumps({"engine_args": dict(engine_args), **more}))


def write_rows(folder: Path, rows: int) -> None:
    """Write rows with a question and the length of the answer.

    Raises ValueError if the naive way cannot divide the number into calls of equal size.
    """
    naive_blocks(rows)
    dice = random.Random(1)  # noqa: S311 -- lengths, not secrets
    with (folder / "rows.jsonl").open("w") as out:
        for number in range(rows):
            tokens = min(MOST_TOKENS, max(1, round(MEDIAN_TOKENS * dice.lognormvariate(0, SPREAD))))
            params = {"max_tokens": tokens, "min_tokens": tokens, "ignore_eos": True, "temperature": 0}
            out.write(json.dumps({"question": f"What is {number}?", "params": params}) + "\n")


def measures(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Return the medians of the ways that ran, and their ratios."""
    rates = {
        way: report.median([run["rows_per_second"] for run in runs if run["way"] == way])
        for way in WAYS
        if any(run["way"] == way for run in runs)
    }
    found = {f"{way}_rows_per_second": rate for way, rate in rates.items()}
    if "batch" in rates:
        found |= {f"batch_to_{way}": rates["batch"] / rates[way] for way in rates if way != "batch"}
    return found


def run(python: Path, way: str, folder: Path, more: Mapping[str, str]) -> dict[str, Any]:
    """Run one way in a separate session that ends with it.

    Args:
        python: Python with the packages of the Ray image.
        way: One of `WAYS`.
        folder: Folder with rows and settings.
        more: Variables of the way's environment.
    """
    command = [str(python), "-m", "bench.ray.batch_ways", way, str(folder)]
    process = subprocess.Popen(  # noqa: S603 -- our own program
        command,
        env=ray_environment.variables(more),
        cwd=paths.REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        message, _ = process.communicate(timeout=_SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise RuntimeError(f"{way} ended with {process.returncode}")
    found: dict[str, Any] = json.loads(message.strip().splitlines()[-1])
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--rows", type=int, default=ROWS)
    chosen = parser.parse_args()
    # A termination signal must end the engine too, which runs in a separate session.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    main(chosen.rounds, chosen.rows)
