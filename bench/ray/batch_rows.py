"""Memory of a batch of 100,000 rows of 2 KiB, and the cost of a kill and resume

`daybreak_runtime.batch` reads, prepares, answers and writes the rows in a separate Ray on this machine. The
simulated engine has 256 slots, holds each row for half a second, like a large GPU with a small model, and
uses no CPU. Everything else is what runs in a cluster.

The benchmark records the memory of the process that reads and writes, the only one that handles every row:
once with few rows, once with all of them. `driver_growth_mib` is the difference of the two, without the
mapped part of Ray's object store, which has a fixed size. A process that kept half of the rows in memory
would miss the goal.

Then the batch runs once more. When half of the rows are written, everything is killed at once, including Ray.
Another process, in another Ray, resumes the batch.

`resume_overhead` is how much longer both attempts took together than the undisturbed run, without the starts.
It includes reading the input and the written output, rows that are answered twice, and slots that fill again.
The start of Ray and the engines is paid once more, and depends on the cluster and the model. `start_seconds`
is its duration here, and `resume_overhead_with_start` includes it.

The measurement needs the packages of `images/ray-cpu`: the first run installs them to `.daybreak/ray-venv`.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import report
from bench.gpu import models
from bench.gpu.processes import Failed, Process, tail
from bench.ray import environment as ray_environment

ROWS, FEW_ROWS = 100_000, 10_000
ROW_BYTES = 2048
"""Bytes of a row's text, which passes all stages and is in the output."""
BATCH_ROWS = 16
"""Number of rows that pass the stages together: the default of an LLMBatch."""
PORT = 27300
"""Port on which a batch reports its progress; below the kernel's ephemeral ports, of which Ray uses many."""
GOALS: Mapping[str, report.Goal] = {
    "resume_overhead": {"max": 0.10},
    "driver_rss_mib": {"max": 1024},
    "driver_growth_mib": {"max": 80},
}
"""Goals of the measures. A head pod has 4 GiB by default.

The growth has no goal if half of the rows would fit into it (`goals`).
"""
NOTES = "BATCH_ROWS_NOTES"
"""Copy of the constant in `batch_rows_engine`, which only a Python with Ray can import."""
_STATES = ("Reading", "Starting", "Running")
_LOOK_SECONDS = 0.25
_SECONDS = 1200.0


@dataclass(frozen=True)
class Attempt:
    """One process of a batch."""

    rows: int
    """Number of rows of the batch."""
    seconds: float
    """Seconds from the start to the last report, or to the kill."""
    start_seconds: float
    """Seconds until Ray runs, plus those from the first ready row to the first answered one."""
    rss_mib: float
    """Peak memory of the process."""
    own_mib: float
    """Peak memory without the mapped part of Ray's object store, from several samples per second."""
    done: int
    """Number of rows that were written at the end."""

    @property
    def working_seconds(self) -> float:
        """Return the seconds without the start of Ray and the engines."""
        return self.seconds - self.start_seconds


class Follower:
    """State of a batch from its reports so far.

    Args:
        kill_at: Number of written rows at which the batch must be killed; None: never.
    """

    def __init__(self, kill_at: int | None = None) -> None:
        self._kill_at = kill_at
        self._reached: dict[str, float] = {}
        self._changed = self._pause = 0.0
        self.done = 0

    def receive(self, report: Mapping[str, Any], now: float) -> None:
        """Record a report, and its seconds after the start; an empty one means no report yet."""
        if not report:
            return
        state = report["state"]
        passed = _STATES[: _STATES.index(state) + 1] if state in _STATES else _STATES
        for each in passed:
            self._reached.setdefault(each, now)
        if (done := int(report.get("rows", {}).get("done", 0))) != self.done:
            self.done, self._pause, self._changed = done, now - self._changed, now

    def due(self, now: float) -> bool:
        """Return True if the batch must be killed now.

        The kill is half-way between two parts, because a crash seldom comes right after a part.
        """
        far = self._kill_at is not None and self.done >= self._kill_at
        return far and now >= self._changed + self._pause / 2

    @property
    def start_seconds(self) -> float:
        """Return the start time of Ray plus that of the engines; the reading of rows between them is work."""
        reached = self._reached
        return reached["Reading"] + reached["Running"] - reached["Starting"]


def main(rows: int = ROWS, few: int = FEW_ROWS, batch_rows: int = BATCH_ROWS) -> None:
    """Measure and write `bench/results/batch_rows.json`."""
    python = ray_environment.python()
    # The folder's path is short, because Ray creates its sockets in it.
    with tempfile.TemporaryDirectory(prefix="db-", dir="/tmp") as name:
        stage = Stage(Path(name), python, batch_rows)
        attempts = {
            "few": stage.attempt("few", few),
            "whole": stage.attempt("whole", rows),
            "killed": stage.attempt("killed", rows, kill_at=rows // 2),
            "resumed": stage.attempt("killed", rows),
        }
        answered = {way: stage.answered(way) for way in ("whole", "killed")}
        for way in answered:
            stage.check(way, rows)
    report.write(
        "batch_rows",
        f"python -m bench.ray.batch_rows --rows {rows} --few {few} --batch-rows {batch_rows}",
        measures=measures(attempts, answered),
        goals=goals(rows - few),
        runs=[{"run": run, **asdict(each)} for run, each in attempts.items()],
        notes=(
            f"{rows} rows of {ROW_BYTES} bytes, and {few} for `few_rows`; batches of {batch_rows} rows. "
            f"One run of each. Killed with {attempts['killed'].done} rows written. No row is in the output "
            "twice, and none is missing. RSS is that of the one process that reads and writes, including its "
            "libraries and its mapped part of Ray's object store. The operator receives only counts, for any "
            "number of rows."
        ),
    )


def goals(more_rows: int) -> Mapping[str, report.Goal]:
    """Return the goals of a measurement with this many more rows than the run with few."""
    kept = more_rows * ROW_BYTES / 2**20
    growth = GOALS["driver_growth_mib"]
    return {name: goal for name, goal in GOALS.items() if goal is not growth or kept > 2 * growth["max"]}


def measures(attempts: Mapping[str, Attempt], answered: Mapping[str, int]) -> dict[str, float]:
    """Return the measures of the attempts; `answered` is the number of the engines' answers in each way."""
    few, whole, killed, resumed = (attempts[run] for run in ("few", "whole", "killed", "resumed"))
    both = killed.seconds + resumed.seconds
    working = killed.working_seconds + resumed.working_seconds
    return {
        "rows_per_second": whole.rows / whole.working_seconds,
        "driver_rss_mib": whole.rss_mib,
        "driver_rss_mib_few_rows": few.rss_mib,
        "driver_rss_mib_resumed": resumed.rss_mib,
        "driver_growth_mib": whole.own_mib - few.own_mib,
        "seconds": whole.seconds,
        "seconds_killed_and_resumed": both,
        "start_seconds": whole.start_seconds,
        "start_seconds_resumed": resumed.start_seconds,
        "rows_answered_twice": answered["killed"] - whole.rows,
        "rows_answered_twice_undisturbed": answered["whole"] - whole.rows,
        "resume_overhead": working / whole.working_seconds - 1,
        "resume_overhead_with_start": both / whole.seconds - 1,
    }


class Stage:
    """Folder and settings in which batches run.

    Args:
        folder: Folder for all files, with a short path.
        python: Python with the packages of the Ray image.
        batch_rows: Number of rows that pass the stages together.
    """

    def __init__(self, folder: Path, python: Path, batch_rows: int) -> None:
        self._folder = folder
        self._python = python
        self._batch_rows = batch_rows
        self._model = models.make("tiny", folder)
        self._number = 0

    def attempt(self, way: str, rows: int, kill_at: int | None = None) -> Attempt:
        """Run one process of a way's batch until it ends or is killed. Raises Failed.

        Args:
            way: Name of the batch: a second attempt resumes from the output of the first.
            rows: Number of rows of the batch.
            kill_at: Number of written rows at which the process is killed; None: it is not killed.
        """
        self._number += 1
        place = self._folder / way
        _write_rows(place, rows)
        command = [str(self._python), "-m", "bench.ray.batch_rows_driver", f"{self._folder}/r{self._number}"]
        variables = ray_environment.variables(self._variables(place))
        process = Process(way, command, variables, self._folder / f"{way}-{self._number}.log")
        try:
            found = _follow(process, rows, kill_at)
            if kill_at is not None:
                process.kill()
        finally:
            process.end()
        print(f"batch_rows: {way}: {found}", flush=True)
        return found

    def answered(self, way: str) -> int:
        """Return the number of the engines' answers, including lost ones."""
        return len(self._notes(way).read_bytes().splitlines())

    def check(self, way: str, rows: int) -> None:
        """Raise Failed unless each row is in the output exactly once."""
        parts = sorted((self._folder / way / "out").glob("part-*.jsonl"))
        found = Counter(json.loads(line)["row_id"] for part in parts for line in part.open())
        if found != Counter(range(rows)):
            raise Failed(f"{way}: {len(found)} of {rows} rows are in the output, {found.total()} lines")

    def _notes(self, way: str) -> Path:
        return self._folder / f"{way}.notes"

    def _variables(self, place: Path) -> Mapping[str, str]:
        order = {
            "uid": place.name,
            "input": {"uri": f"file://{place}/rows.jsonl", "format": "JSONL"},
            "output": {"uri": f"file://{place}/out", "format": "JSONL"},
            "request": {
                "prompt": "Say a word on {{ n }}.",
                "use_chat_template": False,
                "tokenize": False,
                "sampling_params": {"max_tokens": 4},
            },
            "engines": {
                "source": str(self._model),
                "engine_args": {},
                "bundle": {"CPU": 1, "model": 1},
                "resource": "prepare",
                "batch_size": self._batch_rows,
            },
            "port": PORT,
        }
        return {
            "DAYBREAK_BATCH": json.dumps(order),
            NOTES: str(self._notes(place.name)),
            "OMP_NUM_THREADS": "1",
        }


def _write_rows(place: Path, rows: int) -> None:
    """Write the input unless it exists, because a batch resumes with the same input."""
    place.mkdir(exist_ok=True)
    file = place / "rows.jsonl"
    if not file.exists():
        with file.open("w") as out:
            for n in range(rows):
                text = f"Row {n}. " * ROW_BYTES
                out.write(json.dumps({"n": n, "text": text[:ROW_BYTES]}) + "\n")


def _follow(process: Process, rows: int, kill_at: int | None) -> Attempt:
    """Poll the progress until the last report, which is kept, or until the batch must be killed."""
    follower, began, own = Follower(kill_at), time.monotonic(), 0.0
    while True:
        process.check()
        reply, now = _ask(), time.monotonic() - began
        follower.receive(reply, now)
        own = max(own, process.own_mib)
        if reply.get("state") == "Failed":
            raise Failed(f"{process.name}: {reply.get('message')}\n{tail(process.log)}")
        if reply.get("final") or follower.due(now):
            found = Attempt(rows, now, follower.start_seconds, process.peak_mib, own, follower.done)
            if reply.get("final"):
                _ask("?heard=true")
            return found
        if now > _SECONDS:
            raise Failed(f"{process.name}: not within {_SECONDS:.0f} s\n{tail(process.log)}")
        time.sleep(_LOOK_SECONDS)


def _ask(query: str = "") -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/-/batch{query}", timeout=5) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found
    except OSError:
        return {}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--few", type=int, default=FEW_ROWS, help="rows of the first run")
    parser.add_argument("--batch-rows", type=int, default=BATCH_ROWS, help="stages.batchSize of an LLMBatch")
    chosen = parser.parse_args()
    # A termination signal must end the batch too, including Ray.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    main(chosen.rows, chosen.few, chosen.batch_rows)
