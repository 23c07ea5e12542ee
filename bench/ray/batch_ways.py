"""One way to answer rows, for `batch`: run with the Ray image's Python, it prints one line of JSON.

python -m bench.ray.batch_ways naive|plain|batch FOLDER

The folder has `rows.jsonl` and `settings.json`: `engine_args` and `gpus` of each engine, and `batch_rows` of
`batch`.

The clock of each way starts when its engine takes the first row, and stops at the last answer. No rate
includes the start of the engine; each includes everything after the first row, such as half-empty slots.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAIVE_ROWS = 32
"""Number of rows in a call of the naive way, and in a block of its table.

The number of rows must be a multiple of it. Otherwise Ray Data would pass the rest of a block to the engine,
as a call with a row or two.
"""
FIRST_ROW = "BATCH_FIRST_ROW"
"""Environment variable with the file that records when an engine has taken the first row."""


@dataclass(frozen=True)
class Settings:
    """Settings that all ways share."""

    engine_args: Mapping[str, Any]
    """Engine arguments, including `model` and `max_num_seqs`."""
    gpus: int = 0
    batch_rows: int = 16
    """Number of rows in a batch of `batch`: the default of an LLMBatch."""

    @classmethod
    def read(cls, folder: Path) -> "Settings":
        """Read the settings from the folder's `settings.json`."""
        return cls(**json.loads((folder / "settings.json").read_text()))


def read(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the folder."""
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def rate(rows: int, first_taken: float, last_answer: float) -> dict[str, Any]:
    """Return the rows per second from the first row that an engine took to the last answer.

    Raises ValueError if no time lies between them.
    """
    seconds = last_answer - first_taken
    if rows < 1 or seconds <= 0:
        raise ValueError(f"{rows} rows in {seconds} s are no rate")
    return {"rows": rows, "seconds": round(seconds, 2), "rows_per_second": rows / seconds}


def expect_first_row(folder: Path) -> None:
    """Make this process and its children record the first row in a file of this run."""
    os.environ[FIRST_ROW] = str(folder / f"first-{os.getpid()}-{time.monotonic_ns()}")


def note_row() -> None:
    """Record that an engine takes a row now, unless one is recorded.

    The clock is the same for all processes of the machine.
    """
    now = time.monotonic()
    try:
        with open(os.environ[FIRST_ROW], "x") as file:
            file.write(repr(now))
    except FileExistsError:
        return


def first_row() -> float:
    """Return the time at which an engine took the first row, by `time.monotonic()`."""
    return float(Path(os.environ[FIRST_ROW]).read_text())


def naive_blocks(rows: int) -> int:
    """Return the number of blocks of the naive way, each one call.

    Raises ValueError if a call had fewer rows.
    """
    blocks, left = divmod(rows, NAIVE_ROWS)
    if left or not blocks:
        raise ValueError(f"{rows} rows: the naive way needs a multiple of {NAIVE_ROWS}")
    return blocks


def plain(folder: Path, settings: Settings) -> dict[str, Any]:
    """Answer all rows in one call of the engine."""
    from vllm import LLM, SamplingParams

    rows = read(folder)
    engine = LLM(**settings.engine_args, disable_log_stats=True)
    prompts = [f"Answer: {row['question']}" for row in rows]
    params = [SamplingParams(**row["params"]) for row in rows]
    note_row()
    found = engine.generate(prompts, params, use_tqdm=False)
    return rate(len(found), first_row(), time.monotonic())


class Synchronous:
    """Actor of the naive way."""

    def __init__(self, engine_args: Mapping[str, Any]) -> None:
        from vllm import LLM

        self._engine = LLM(**engine_args, disable_log_stats=True)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Answer a batch, and wait for its longest row."""
        from vllm import SamplingParams

        prompts = [f"Answer: {question}" for question in batch["question"]]
        params = [SamplingParams(**json.loads(written)) for written in batch["params"]]
        note_row()
        found = self._engine.generate(prompts, params, use_tqdm=False)
        return {"text": [each.outputs[0].text for each in found]}


def naive(folder: Path, settings: Settings) -> dict[str, Any]:
    """Answer the rows with `map_batches` and a synchronous engine."""
    import ray

    _start(folder, settings)
    rows = [{"question": row["question"], "params": json.dumps(row["params"])} for row in read(folder)]
    dataset = ray.data.from_items(rows, override_num_blocks=naive_blocks(len(rows))).map_batches(
        Synchronous,
        fn_constructor_args=(settings.engine_args,),
        batch_size=NAIVE_ROWS,
        compute=ray.data.ActorPoolStrategy(size=1),
        num_cpus=1,
        num_gpus=settings.gpus or None,
    )
    answered, last = 0, 0.0
    for found in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
        answered, last = answered + found.num_rows, time.monotonic()
    return rate(answered, first_row(), last)


def batch(folder: Path, settings: Settings) -> dict[str, Any]:
    """Answer the rows with the runtime of an LLMBatch, from rows to written parts."""
    from bench.ray.batch_ways_engine import Noting
    from daybreak_runtime.batch import stage_classes
    from daybreak_runtime.batch.engines import answers
    from daybreak_runtime.batch.order import Engines, Order
    from daybreak_runtime.batch.output import Output
    from daybreak_runtime.batch.rows.reading import input_files, rows
    from daybreak_runtime.batch.rows.staging import stage
    from daybreak_runtime.jobs.storage import storage

    vars(stage_classes)["JsonEngine"] = Noting
    _start(folder, settings)
    args = dict(settings.engine_args)
    slots = args["max_num_seqs"]
    out = folder / f"out-{time.monotonic_ns()}"
    order = Order.read(
        {
            "uid": "bench",
            "input": {"uri": f"file://{folder}/rows.jsonl", "format": "JSONL"},
            "output": {"uri": f"file://{out}", "format": "JSONL"},
            "request": {
                "prompt": "Answer: {{ question }}",
                "sampling_params_column": "params",
                "use_chat_template": False,
            },
        }
    )
    engines = Engines(
        source=args.pop("model"),
        engine_args=args,
        bundle={"CPU": 1, "model": 1} | ({"GPU": settings.gpus} if settings.gpus else {}),
        resource="prepare",
        max_num_seqs=slots,
        batch_size=settings.batch_rows,
    )
    source, output = storage(order.input.uri), Output(order, storage(order.output.uri))
    files = input_files(order.input, source)
    output.begin(files)
    staged = stage(rows(order.input, files, source), output.done, folder / "staged", settings.batch_rows)
    for found in answers(engines, order.request, staged.blocks):
        output.take(found)
    output.finish()
    ended = time.monotonic()
    if output.failed or len(output.done) != staged.total:
        raise SystemExit(f"{output.failed} of {staged.total} rows failed: {output.first_errors}")
    return rate(len(output.done), first_row(), ended)


def _start(folder: Path, settings: Settings) -> None:
    """Start a separate Ray, which ends with this process."""
    import ray

    ray.init(
        num_cpus=4,
        num_gpus=settings.gpus,
        resources={"model": 1, "prepare": 1000, "daybreak-head": 1},
        object_store_memory=200_000_000,
        include_dashboard=False,
        log_to_driver=False,
        _temp_dir=str(folder / "ray"),
    )


if __name__ == "__main__":
    way = {"naive": naive, "plain": plain, "batch": batch}[sys.argv[1]]
    place = Path(sys.argv[2])
    expect_first_row(place)
    print(json.dumps(way(place, Settings.read(place))), flush=True)
