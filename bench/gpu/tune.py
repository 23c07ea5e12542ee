"""LLMBenchmark on this GPU (or CPU) without Kubernetes, with a model generated on the machine.

    python -m bench.gpu.tune                     # the shape of Llama 3.1 8B, max_num_seqs, 64 clients
    python -m bench.gpu.tune --cpu --model-shape tiny --clients 8 --ladder 1,2,4,8,16 --seconds 3 --ramp 1

The Python that runs it has the packages of the lock of `images/ray` (GPU_PYTHON of `make gpu-check`).
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import report
from bench.gpu import machine, models, render
from bench.gpu.__main__ import command_line

_RUNTIME = render.REPOSITORY / "runtime" / "src"
_SAMPLE = {"tiny": "tiny-cpu", "8b": "llama-8b-one-gpu"}


def order(options: argparse.Namespace, rendered: render.Rendered) -> dict[str, Any]:
    """Return the input of `daybreak_runtime.benchmark`."""
    swept = {"name": options.argument, "values": json.loads(f"[{options.ladder}]")}
    args = {name: value for name, value in rendered.engine_args.items() if name != options.argument}
    lengths = {"kind": "LogNormal", "sigma": 0.7, "min": 4, "max": options.tokens_most}
    return {
        "engine": {
            "source": rendered.source,
            "model": rendered.model,
            "args": {**args, **options.engine_args},
            "gpus": 0 if options.cpu else 1,
            "port": options.port,
            "start_seconds": options.start_seconds,
        },
        "load": {
            "clients": json.loads(f"[{options.clients}]"),
            "prompt_tokens": {**lengths, "mean": options.tokens_in},
            "output_tokens": {**lengths, "mean": options.tokens_out},
            "seconds": options.seconds,
            "windows": options.windows,
            "ramp_seconds": options.ramp,
        },
        "sweep": [swept],
        "stop": {"patience": options.patience},
        "budget": {"seconds": options.budget},
    }


def main() -> int:
    """Run the sweep, print the table, and save the result. Return 0 if the sweep has a result."""
    options = _parser().parse_args()
    folder = options.work or Path(tempfile.mkdtemp(prefix="tune-"))
    folder.mkdir(parents=True, exist_ok=True)
    wish = render.Wish(
        sample=_SAMPLE[options.model_shape],
        folder=models.make(options.model_shape, folder),
        dummy=models.dummy_weights(options.model_shape),
    )
    cache = folder / "cache"
    rendered = render.render(wish, port=options.port, cache=cache)
    image = "ray-cpu" if options.cpu else "ray"
    environment = {**os.environ, **render.image_environment(image, Path(sys.prefix), cache, os.environ)}
    environment |= rendered.worker.environment
    cache.mkdir(exist_ok=True)
    environment["PYTHONPATH"] = os.pathsep.join([str(_RUNTIME), *filter(None, sys.path)])
    (folder / "order.json").write_text(json.dumps(order(options, rendered), indent=1))
    program = [sys.executable, "-m", "daybreak_runtime.benchmark", str(folder / "order.json")]
    job = subprocess.Popen([*program, "--out", str(folder / "report")], env=environment)  # noqa: S603
    # Forward SIGTERM, so that the engine ends with this program.
    signal.signal(signal.SIGTERM, lambda *_: job.terminate())
    status = job.wait()
    print(f"{folder / 'report'}: report.html, curve.svg, curve.png, results.json")
    if status == 0 and (options.out or not options.cpu):
        _keep(options.out or report.RESULTS / f"gpu-tuning-{options.model_shape}.json", folder)
    return status


def _keep(file: Path, folder: Path) -> None:
    found = json.loads((folder / "report" / "results.json").read_text())
    words = shlex.split(command_line(sys.argv[1:]))
    kept = {
        "title": "LLMBenchmark's search on one GPU, without Kubernetes",
        "command": shlex.join(["python", "-m", "bench.gpu.tune", *words[3:]]),
        "machine": machine.words(),
        "versions": machine.versions(),
        **found,
    }
    file.write_text(json.dumps(kept, indent=1) + "\n")
    print(file)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.tune", description=__doc__)
    parser.add_argument("--model-shape", choices=models.SHAPES, default="8b")
    parser.add_argument("--cpu", action="store_true", help="with images/ray-cpu's packages")
    parser.add_argument("--argument", default="max_num_seqs", help="the engine argument that is swept")
    parser.add_argument("--ladder", default="4,8,16,32,64,128,256,512,1024", help="its values")
    parser.add_argument("--clients", default="64", help="numbers of clients (default 64)")
    parser.add_argument("--engine-args", type=json.loads, default={}, help="more engine arguments, as JSON")
    parser.add_argument("--tokens-in", type=float, default=210.0, help="mean length of prompts")
    parser.add_argument("--tokens-out", type=float, default=114.0, help="mean length of answers")
    parser.add_argument("--tokens-most", type=int, default=1024, help="longest prompt and answer")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each window (default 6)")
    parser.add_argument("--windows", type=int, default=3, help="windows of each step (default 3)")
    parser.add_argument("--ramp", type=float, default=5.0, help="seconds of load before them (default 5)")
    parser.add_argument("--patience", type=int, default=1, help="jumps without a gain until it stops")
    parser.add_argument("--budget", type=float, default=1500.0, help="seconds for all (default 1500)")
    parser.add_argument("--start-seconds", type=float, default=400.0, help="how long a start may take")
    parser.add_argument("--port", type=int, default=26100)
    parser.add_argument("--work", type=Path, help="folder for the model, caches and the report")
    parser.add_argument("--out", type=Path, help="file of the result (default: in bench/results, on GPUs)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
