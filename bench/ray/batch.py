"""A batch: rows in each second, beside the naive way and beside the engine alone

The same rows, whose answers have log-normal lengths, are answered by the same model in three ways, each in
processes of its own on this machine: `naive` is what tutorials show, a `map_batches` of Ray Data whose actor
calls the synchronous `LLM.generate` with 32 rows at a time; `plain` is one `LLM.generate` of all rows, which
is the engine alone; `batch` is the runtime of an LLMBatch, from staged rows to written parts.

The clock of each way starts when its engine takes the first row, and stops at the last answer, for `batch`
when the last part is written. So the start of the engine is in no rate, and slots that fill and empty are in
each. What `batch` templates and tokenizes while its engine starts is not in its time, as in a cluster.

Needs images/ray-cpu's packages: the first run puts them into .daybreak/ray-venv.
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
"""A multiple of the rows of a call of the naive way."""
MEDIAN_TOKENS, SPREAD, MOST_TOKENS = 24.0, 0.9, 256
SLOTS = 32
WAYS = ("naive", "plain", "batch")
_SECONDS = 600
GOALS: dict[str, report.Goal] = {"batch_to_naive": {"min": 2.0}, "batch_to_plain": {"min": 0.9}}


def main(rounds: int = ROUNDS, rows: int = ROWS, python: Path | None = None) -> None:
    """Measure and write bench/results/batch.json."""
    python = python or ray_environment.python()
    runs: list[dict[str, Any]] = []
    # Sockets of Ray's lie below the folder, so its path is short.
    with tempfile.TemporaryDirectory(prefix="db-", dir="/tmp") as name:
        folder = Path(name)
        model = models.make("tiny", folder)
        write_rows(folder, rows)
        args = {"model": str(model), "max_model_len": 1024, "max_num_seqs": SLOTS, "dtype": "bfloat16"}
        write_settings(folder, args)
        for round_ in range(rounds):
            # In turns, each round in another order: a machine that slows down slows all of them.
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
            f"Medians of {rounds} runs. The engine has the same cores as what surrounds it, which costs "
            "`batch` more here than with a GPU."
        ),
    )


def write_settings(folder: Path, engine_args: Mapping[str, Any], **more: int) -> None:
    """What `bench.ray.batch_ways` reads beside the rows; `more` are its other settings."""
    (folder / "settings.json").write_text(json.dumps({"engine_args": dict(engine_args), **more}))


def write_rows(folder: Path, rows: int) -> None:
    """Rows with a question and how long the answer is.

    Raises ValueError for a number that the naive way cannot divide into calls of the same size.
    """
    naive_blocks(rows)
    dice = random.Random(1)  # noqa: S311 -- lengths, not secrets
    with (folder / "rows.jsonl").open("w") as out:
        for number in range(rows):
            tokens = min(MOST_TOKENS, max(1, round(MEDIAN_TOKENS * dice.lognormvariate(0, SPREAD))))
            params = {"max_tokens": tokens, "min_tokens": tokens, "ignore_eos": True, "temperature": 0}
            out.write(json.dumps({"question": f"What is {number}?", "params": params}) + "\n")


def measures(runs: list[dict[str, Any]]) -> dict[str, float]:
    """The medians of the ways that ran, and their ratios."""
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
    """One way, in a session of its own that ends with it.

    Args:
        python: With the packages of the Ray image.
        way: Of `WAYS`.
        folder: With rows and settings.
        more: Variables of its environment.
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
        said, _ = process.communicate(timeout=_SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise RuntimeError(f"{way} ended with {process.returncode}")
    found: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--rows", type=int, default=ROWS)
    chosen = parser.parse_args()
    # Who is ended ends the engine that it has started, which is in a session of its own.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    main(chosen.rounds, chosen.rows)
