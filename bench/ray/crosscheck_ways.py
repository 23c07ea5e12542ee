"""Both programs against one engine, for `crosscheck`: run with the Ray image's Python, it prints JSON.

python -m bench.ray.crosscheck_ways MODEL ROUNDS SECONDS
"""

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from daybreak_runtime.benchmark.engines import started
from daybreak_runtime.benchmark.load.measure import Level, Target, measure
from daybreak_runtime.benchmark.order import Engine, Lengths, Load, Objective

CLIENTS = 4
TOKENS_IN, TOKENS_OUT = 64, 32
PORT = 27100
_VLLM_BENCH = (
    "from vllm.benchmarks.serve import add_cli_args, main\n"
    "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
    "parser = FlexibleArgumentParser()\n"
    "add_cli_args(parser)\n"
    "main(parser.parse_args())\n"
)
"""Python code of `vllm bench serve`: the CPU build's distribution has a name that hides the command."""


def ours(target: Target, seconds: float) -> dict[str, Any]:
    """Run the load of an LLMBenchmark."""
    load = Load(
        clients=(CLIENTS,),
        prompt_tokens=Lengths("Fixed", mean=TOKENS_IN),
        output_tokens=Lengths("Fixed", mean=TOKENS_OUT),
        seconds=seconds,
        windows=1,
        ramp_seconds=3.0,
    )
    step = measure(target, load, Level(clients=CLIENTS), Objective(), {})
    return {
        "requests": step.requests,
        "errors": step.errors,
        "requests_per_second": step.requests_per_second,
        "ttft_p50_ms": step.ttft_ms.p50,
        "tpot_p50_ms": step.tpot_ms.p50,
    }


def theirs(target: Target, model: Path, requests: int) -> dict[str, Any]:
    """Run `vllm bench serve` with as many requests, after one warm-up request for each client."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "backend": "openai",
            "base-url": target.url.removesuffix("/v1"),
            "endpoint": "/v1/completions",
            "model": target.model,
            "tokenizer": model,
            "dataset-name": "random",
            "random-input-len": TOKENS_IN,
            "random-output-len": TOKENS_OUT,
            "max-concurrency": CLIENTS,
            "num-prompts": requests,
            "num-warmups": CLIENTS,
            "temperature": 0,
            "result-dir": folder,
            "result-filename": "found.json",
        }
        flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        command = [sys.executable, "-c", _VLLM_BENCH, *flags, "--ignore-eos", "--save-result"]
        subprocess.run(command, check=True, stdout=sys.stderr)  # noqa: S603 -- vLLM's own program
        found = json.loads(Path(folder, "found.json").read_text())
    return {
        "requests": found["completed"],
        "errors": found["num_prompts"] - found["completed"],
        "requests_per_second": found["request_throughput"],
        "ttft_p50_ms": found["median_ttft_ms"],
        "tpot_p50_ms": found["median_tpot_ms"],
    }


def main(model: Path, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Run both programs in turns, with the order reversed each round."""
    args = {
        "max_model_len": 1024,
        "max_num_seqs": CLIENTS,
        "dtype": "bfloat16",
        "enable_prefix_caching": False,
    }
    runs: list[dict[str, Any]] = []
    with started(Engine(str(model), "tiny", args, port=PORT), {}) as target:
        requests = max(CLIENTS, ours(target, seconds)["requests"])  # not counted: it warms the engine up
        for number in range(rounds):
            for way in ("ours", "vllm") if number % 2 == 0 else ("vllm", "ours"):
                found = ours(target, seconds) if way == "ours" else theirs(target, model, requests)
                runs.append({"round": number, "way": way, **found})
                print(f"crosscheck: {runs[-1]}", file=sys.stderr, flush=True)
    return runs


if __name__ == "__main__":
    # A termination signal must end the engine too, which runs in a separate session.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))), flush=True)
