"""Command line `python -m bench.gpu`."""

import argparse
import json
import shlex
import signal
import sys
import tempfile
from pathlib import Path

from bench import report
from bench.gpu import machine, models, render
from bench.gpu.check import STEPS, Check, Options
from bench.gpu.clients import Lengths
from bench.gpu.load import Window
from bench.gpu.processes import Failed
from bench.gpu.result import Result

_SAMPLE = {"tiny": "tiny-cpu", "8b": "llama-8b-one-gpu"}


def main() -> int:
    """Run the check, print the verdict, and return 0 if all is well."""
    options = _parser().parse_args()
    # Exit on SIGTERM, so that the started processes end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    clients = [int(number) for number in options.clients.split(",")]
    steps = options.steps.split(",")
    if unknown := set(steps) - set(STEPS):
        print(f"no step {', '.join(sorted(unknown))}; there are: {', '.join(STEPS)}", file=sys.stderr)
        return 2
    if not options.cpu and len(machine.gpus()) < options.tensor:
        print(f"{options.tensor} GPUs are needed; nvidia-smi shows: {machine.words()}", file=sys.stderr)
        return 2
    folder = options.work or Path(tempfile.mkdtemp(prefix="gc-"))
    folder.mkdir(parents=True, exist_ok=True)
    model = models.make(options.model_shape, folder)
    wish = render.Wish(
        sample=options.sample or _SAMPLE[options.model_shape],
        folder=model,
        dummy=models.dummy_weights(options.model_shape),
        tensor=options.tensor,
        more_args=options.engine_args,
    )
    file = _result_file(options)
    result = _result(options, file)
    check = Check(
        Options(
            wish=wish,
            image="ray-cpu" if options.cpu else "ray",
            steps=steps,
            clients=clients,
            window=Window(options.seconds, options.ramp),
            lengths=Lengths(options.tokens_in, options.tokens_out, most=options.tokens_most),
            gateway=options.gateway,
            port=options.port,
            start_seconds=options.start_seconds,
            folder=folder,
            head_python=options.head_python,
        ),
        result,
    )
    try:
        check.run()
    except Failed as error:
        result.failures.append(str(error))
        result.write()
    text, good = result.verdict()
    print(text)
    if file is not None:
        print(f"  {file}")
    print(f"  logs: {folder}")
    return 0 if good else 1


def _result_file(options: argparse.Namespace) -> Path | None:
    """Return the file of the result: by default one in `bench/results`, or None if CPUs are measured."""
    if options.out is not None or options.cpu:
        out: Path | None = options.out
        return out
    what = f"{options.model_shape}-tensor-{options.tensor}" if options.tensor > 1 else options.model_shape
    return report.RESULTS / f"gpu-{what}.json"


def _result(options: argparse.Namespace, file: Path | None) -> Result:
    """Return the result to fill."""
    return Result(
        file,
        title=f"On GPUs, compared with `vllm serve`: {_SHAPE[options.model_shape]}, tensor {options.tensor}",
        command=command_line(sys.argv[1:]),
        samples=render.rendered_samples(),
        head="images/ray-cpu" if options.head_python else "as the worker",
        lengths={"in": options.tokens_in, "out": options.tokens_out, "log_normal_sigma": Lengths().sigma},
    )


def command_line(arguments: list[str]) -> str:
    """Return the command for the result, without the folders of this machine."""
    kept, words = [], iter(arguments)
    for word in words:
        if word in _FOLDERS:
            next(words, None)
        elif word.partition("=")[0] not in _FOLDERS:
            kept.append(word)
    return shlex.join(["python", "-m", "bench.gpu", *kept])


_FOLDERS = ("--work", "--out", "--head-python")
_SHAPE = {"tiny": "a model of 3 MB", "8b": "the shape of Llama 3.1 8B with dummy weights"}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("--model-shape", choices=models.SHAPES, default="8b")
    parser.add_argument("--sample", help="a file of manifests/samples (default: the one for the shape)")
    parser.add_argument("--tensor", type=int, default=1, help="GPUs of the replica (default 1)")
    parser.add_argument(
        "--engine-args", type=json.loads, default={}, help="more engine arguments for both, as a JSON object"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="with images/ray-cpu's packages, to try the check itself"
    )
    parser.add_argument(
        "--head-python",
        default="",
        help="a Python with images/ray-cpu's packages: the head has an image apart",
    )
    parser.add_argument("--steps", default="serve,vllm,wake", help=f"in order, of {', '.join(STEPS)}")
    parser.add_argument("--gateway", action="store_true", help="measure the ways through the gateway too")
    parser.add_argument("--clients", default="64,256", help="numbers of clients (default 64,256)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measured window (default 20)")
    parser.add_argument("--ramp", type=float, default=6.0, help="seconds of load before it (default 6)")
    parser.add_argument("--tokens-in", type=float, default=210.0, help="mean length of questions")
    parser.add_argument("--tokens-out", type=float, default=114.0, help="mean length of answers")
    parser.add_argument("--tokens-most", type=int, default=1024, help="longest question and answer")
    parser.add_argument("--start-seconds", type=float, default=600.0, help="how long a start may take")
    parser.add_argument("--port", type=int, default=26000, help="the first of 70 ports")
    parser.add_argument("--work", type=Path, help="folder for models, caches and logs (default: a new one)")
    parser.add_argument("--out", type=Path, help="file of the result (default: in bench/results, on GPUs)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
