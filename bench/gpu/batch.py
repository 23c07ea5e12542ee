"""Rows per second of a batch on one GPU, without Kubernetes, compared with a naive loop and the engine alone.

    python -m bench.gpu.batch --rows 20000

The rows and ways are those of `bench.ray.batch`, with the shape of Llama 3.1 8B and dummy weights. The Python
that runs it has the packages of the lock of `images/ray` (GPU_PYTHON of `make gpu-check`).
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import report
from bench.gpu import machine, models, render
from bench.gpu.__main__ import command_line
from bench.ray import batch


def main() -> int:
    """Measure, and save the result after each run, because the machine may be taken away at any time."""
    options = _parser().parse_args()
    folder = options.work or Path(tempfile.mkdtemp(prefix="gb-", dir="/tmp"))
    folder.mkdir(parents=True, exist_ok=True)
    wish = render.Wish(sample="llama-8b-one-gpu", folder=models.make("8b", folder), dummy=True)
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    rendered = render.render(wish, port=0, cache=cache)
    environment = render.image_environment("ray", Path(sys.prefix), cache, os.environ)
    environment |= rendered.worker.environment
    args = {**rendered.engine_args, "max_num_seqs": options.slots, "model": rendered.source}
    # The naive way is so slow that the full number of rows would take the machine's whole time.
    places = {way: folder / way for way in batch.WAYS}
    rows = {way: options.naive_rows if way == "naive" else options.rows for way in places}
    for way, place in places.items():
        place.mkdir(exist_ok=True)
        batch.write_rows(place, rows[way])
        batch.write_settings(place, args, gpus=1, batch_rows=options.batch_rows)
    file = options.out or report.RESULTS / "gpu-batch-8b.json"
    runs: list[dict[str, Any]] = []
    for way in options.ways.split(","):
        runs.append({"way": way, **batch.run(Path(sys.executable), way, places[way], environment)})
        print(f"batch: {runs[-1]}", flush=True)
        _keep(file, options, args, runs)
    return 0


def _keep(file: Path, options: argparse.Namespace, args: dict[str, Any], runs: list[dict[str, Any]]) -> None:
    measured = {run["way"] for run in runs}
    kept = {
        "title": "An LLMBatch's rows on one GPU, without Kubernetes",
        "command": command_line(sys.argv[1:]).replace("bench.gpu", "bench.gpu.batch", 1),
        "complete": measured == set(batch.WAYS),
        "machine": machine.words(),
        "versions": machine.versions(),
        "rows": options.rows,
        "naive_rows": options.naive_rows,
        "batch_rows": options.batch_rows,
        "engine_args": {name: value for name, value in args.items() if name != "model"},
        "measures": (found := batch.measures(runs)),
        "goals": {name: dict(goal) for name, goal in batch.GOALS.items() if name in found},
        "runs": runs,
    }
    file.write_text(json.dumps(kept, indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.batch", description=__doc__)
    parser.add_argument("--rows", type=int, default=20000, help="a multiple of 32 (default 20000)")
    parser.add_argument("--naive-rows", type=int, default=1536, help="rows of the naive way (default 1536)")
    parser.add_argument("--batch-rows", type=int, default=16, help="rows of a batch, as in LLMBatch's stages")
    parser.add_argument("--slots", type=int, default=256, help="max_num_seqs of each engine (default 256)")
    parser.add_argument("--ways", default=",".join(("batch", "plain", "naive", "plain", "batch")))
    parser.add_argument("--work", type=Path, help="folder for model, rows and caches; a short path")
    parser.add_argument("--out", type=Path, help="file of the result (default: in bench/results)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
