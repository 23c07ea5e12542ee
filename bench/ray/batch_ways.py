"""One way of answering rows, for `batch`: run with the Ray image's Python, it prints one line of JSON.

python -m bench.ray.batch_ways naive|plain|batch FOLDER

The folder has `rows.jsonl` and `settings.json`: `engine_args` that each engine is told, `gpus` of it, and
`batch_rows` of `batch`.
"""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAIVE_ROWS = 32


@dataclass(frozen=True)
class Settings:
    """What is the same for every way."""

    engine_args: Mapping[str, Any]
    """With `model` and `max_num_seqs`."""
    gpus: int = 0
    batch_rows: int = 8
    """Of a batch of `batch`."""

    @classmethod
    def read(cls, folder: Path) -> "Settings":
        """From the folder's `settings.json`."""
        return cls(**json.loads((folder / "settings.json").read_text()))


def read(folder: Path) -> list[dict[str, Any]]:
    """The rows."""
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def rate(arrivals: list[tuple[float, int]]) -> dict[str, Any]:
    """Rows in each second from the first answer to the last."""
    (begun, first), total = arrivals[0], sum(count for _, count in arrivals)
    seconds = arrivals[-1][0] - begun
    return {"rows": total, "seconds": round(seconds, 2), "rows_per_second": (total - first) / seconds}


def plain(folder: Path, settings: Settings) -> dict[str, Any]:
    """All rows in one call of the engine."""
    from vllm import LLM, SamplingParams

    rows = read(folder)
    engine = LLM(**settings.engine_args, disable_log_stats=True)
    prompts = [f"Answer: {row['question']}" for row in rows]
    params = [SamplingParams(**row["params"]) for row in rows]
    began = time.monotonic()
    found = engine.generate(prompts, params, use_tqdm=False)
    seconds = time.monotonic() - began
    return {"rows": len(found), "seconds": round(seconds, 2), "rows_per_second": len(found) / seconds}


class Synchronous:
    """The naive way's actor."""

    def __init__(self, engine_args: Mapping[str, Any]) -> None:
        from vllm import LLM

        self._engine = LLM(**engine_args, disable_log_stats=True)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Answer a batch, and wait for its longest row."""
        from vllm import SamplingParams

        prompts = [f"Answer: {question}" for question in batch["question"]]
        params = [SamplingParams(**json.loads(written)) for written in batch["params"]]
        found = self._engine.generate(prompts, params, use_tqdm=False)
        return {"text": [each.outputs[0].text for each in found]}


def naive(folder: Path, settings: Settings) -> dict[str, Any]:
    """`map_batches` with a synchronous engine."""
    import ray

    _start(folder, settings)
    rows = [{"question": row["question"], "params": json.dumps(row["params"])} for row in read(folder)]
    dataset = ray.data.from_items(rows).map_batches(
        Synchronous,
        fn_constructor_args=(settings.engine_args,),
        batch_size=NAIVE_ROWS,
        compute=ray.data.ActorPoolStrategy(size=1),
        num_cpus=1,
        num_gpus=settings.gpus or None,
    )
    arrivals = []
    for batch in dataset.iter_batches(batch_size=NAIVE_ROWS, batch_format="pyarrow"):
        arrivals.append((time.monotonic(), batch.num_rows))
    return rate(arrivals)


def batch(folder: Path, settings: Settings) -> dict[str, Any]:
    """The runtime of an LLMBatch, rows to written parts."""
    from daybreak_runtime.batch.engines import answers
    from daybreak_runtime.batch.order import Engines, Order
    from daybreak_runtime.batch.output import Output
    from daybreak_runtime.batch.rows import input_files, rows
    from daybreak_runtime.batch.staging import stage
    from daybreak_runtime.jobs.storage import storage

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
    arrivals = []
    for found in answers(engines, order.request, staged.blocks):
        output.take(found)
        arrivals.append((time.monotonic(), len(found)))
    output.finish()
    arrivals.append((time.monotonic(), 0))
    if output.failed or len(output.done) != staged.total:
        raise SystemExit(f"{output.failed} of {staged.total} rows failed: {output.first_errors}")
    return rate(arrivals)


def _start(folder: Path, settings: Settings) -> None:
    """A Ray of this process's own, which ends with it."""
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
    print(json.dumps(way(place, Settings.read(place))), flush=True)
