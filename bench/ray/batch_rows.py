"""A batch of 100,000 rows of 2 KiB: the memory of its process, and what it costs to be killed and to go on

`daybreak_runtime.batch` reads, prepares, answers and writes the rows in a Ray of its own on this machine. A
stand-in for the engine has 256 slots and holds each for half a second, as a large GPU with a small model
might, and costs nothing; all else is what runs in a cluster.

The process that reads and writes, which is the only one that sees every row, is watched for its memory: once
with few rows, once with all of them. `driver_growth_mib` is the difference of the two, without what either
maps of Ray's object store, whose size is fixed. Whoever kept half of the rows would miss its goal.

Then the same is done once more, and when half of the rows are written everything is killed at once, Ray with
it; another process begins, in another Ray, and goes on.

`resume_overhead` is how much longer both took together than the run that nobody disturbed, without the
starts: reading the input and what is written already, rows that are answered twice, and slots that fill
anew. A start, which is Ray's and the engines', is paid once more and depends on the cluster and the model;
`start_seconds` is what it takes here, and `resume_overhead_with_start` counts it.

Needs images/ray-cpu's packages: the first run puts them into .daybreak/ray-venv.
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
"""Of a row's text, which goes through all stages and into the output."""
BATCH_ROWS = 16
"""Rows that go through the stages together: an LLMBatch's default."""
PORT = 27300
"""Where a batch says how far it is; below those that the kernel gives out, of which Ray takes many."""
GOALS: Mapping[str, report.Goal] = {
    "resume_overhead": {"max": 0.10},
    "driver_rss_mib": {"max": 1024},
    "driver_growth_mib": {"max": 80},
}
"""A head pod has 4 GiB unless it is told another figure. The growth has no goal where half of the rows would
fit into it (`goals`)."""
NOTES = "BATCH_ROWS_NOTES"
"""As in batch_rows_engine, which only a Python with Ray can import."""
_STATES = ("Reading", "Starting", "Running")
_LOOK_SECONDS = 0.25
_SECONDS = 1200.0


@dataclass(frozen=True)
class Attempt:
    """One process of a batch."""

    rows: int
    """Rows of the batch."""
    seconds: float
    """From its start to its last word, or to its end by force."""
    start_seconds: float
    """Of them: until Ray runs, and from the first row that could be answered to the first that was."""
    rss_mib: float
    """Its highest memory."""
    own_mib: float
    """The same without what it maps of Ray's object store; the highest of several looks in a second."""
    done: int
    """Rows that were written at its end."""

    @property
    def working_seconds(self) -> float:
        """Without the start of Ray and the engines."""
        return self.seconds - self.start_seconds


class Follower:
    """What a batch has said of itself so far.

    Args:
        kill_at: With so many rows written it is to be killed; None: never.
    """

    def __init__(self, kill_at: int | None = None) -> None:
        self._kill_at = kill_at
        self._reached: dict[str, float] = {}
        self._changed = self._pause = 0.0
        self.done = 0

    def hear(self, said: Mapping[str, Any], now: float) -> None:
        """Take what it says, so many seconds after its start; empty: it has not said anything yet."""
        if not said:
            return
        state = said["state"]
        passed = _STATES[: _STATES.index(state) + 1] if state in _STATES else _STATES
        for each in passed:
            self._reached.setdefault(each, now)
        if (done := int(said.get("rows", {}).get("done", 0))) != self.done:
            self.done, self._pause, self._changed = done, now - self._changed, now

    def due(self, now: float) -> bool:
        """Whether it is to be killed now: half-way between two parts, since nobody dies right after one."""
        far = self._kill_at is not None and self.done >= self._kill_at
        return far and now >= self._changed + self._pause / 2

    @property
    def start_seconds(self) -> float:
        """Of Ray, and of the engines: the reading of rows that lies between them is work."""
        reached = self._reached
        return reached["Reading"] + reached["Running"] - reached["Starting"]


def main(rows: int = ROWS, few: int = FEW_ROWS, batch_rows: int = BATCH_ROWS) -> None:
    """Measure and write bench/results/batch_rows.json."""
    python = ray_environment.python()
    # Sockets of Ray's lie below the folder, so its path is short.
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
            "twice, and none is missing. RSS is that of the one process that reads and writes, its libraries "
            "and what it maps of Ray's object store included. The operator is told counts only, whatever the "
            "number of rows."
        ),
    )


def goals(more_rows: int) -> Mapping[str, report.Goal]:
    """The goals of a measurement that has so many more rows than the one with few."""
    kept = more_rows * ROW_BYTES / 2**20
    growth = GOALS["driver_growth_mib"]
    return {name: goal for name, goal in GOALS.items() if goal is not growth or kept > 2 * growth["max"]}


def measures(attempts: Mapping[str, Attempt], answered: Mapping[str, int]) -> dict[str, float]:
    """What the attempts come to; `answered` is how many answers the engines gave in each way."""
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
    """Where batches run.

    Args:
        folder: For everything; its path is short.
        python: With the packages of the Ray image.
        batch_rows: Rows that go through the stages together.
    """

    def __init__(self, folder: Path, python: Path, batch_rows: int) -> None:
        self._folder = folder
        self._python = python
        self._batch_rows = batch_rows
        self._model = models.make("tiny", folder)
        self._number = 0

    def attempt(self, way: str, rows: int, kill_at: int | None = None) -> Attempt:
        """One process of the batch of a way, until it has ended or is killed. Raises Failed.

        Args:
            way: Which batch: a second attempt goes on with the first one's output.
            rows: Rows of the batch.
            kill_at: With so many rows written it is killed; None: it is not.
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
        """How many answers the engines gave, those included that were lost."""
        return len(self._notes(way).read_bytes().splitlines())

    def check(self, way: str, rows: int) -> None:
        """Raises Failed unless each row is in the output, once."""
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
    """The input, unless it is there: a batch goes on with the same one."""
    place.mkdir(exist_ok=True)
    file = place / "rows.jsonl"
    if not file.exists():
        with file.open("w") as out:
            for n in range(rows):
                text = f"Row {n}. " * ROW_BYTES
                out.write(json.dumps({"n": n, "text": text[:ROW_BYTES]}) + "\n")


def _follow(process: Process, rows: int, kill_at: int | None) -> Attempt:
    """Ask it how far it is, until its last word, which is then kept, or until it is to be killed."""
    follower, began, own = Follower(kill_at), time.monotonic(), 0.0
    while True:
        process.check()
        said, now = _ask(), time.monotonic() - began
        follower.hear(said, now)
        own = max(own, process.own_mib)
        if said.get("state") == "Failed":
            raise Failed(f"{process.name}: {said.get('message')}\n{tail(process.log)}")
        if said.get("final") or follower.due(now):
            found = Attempt(rows, now, follower.start_seconds, process.peak_mib, own, follower.done)
            if said.get("final"):
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
    # Who is ended ends the batch that it has started, Ray included.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    main(chosen.rows, chosen.few, chosen.batch_rows)
