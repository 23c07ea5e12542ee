"""The whole load: several processes of clients, and their combined results."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bench.gpu.clients import Job, Lengths, RequestResult
from bench.gpu.cores import Used, busy, in_front
from bench.gpu.processes import Failed
from bench.gpu.render import REPOSITORY

_CLIENTS_OF_A_PROCESS = 16
_START_SECONDS = 2.0
"""Seconds until the last process of the load runs."""
_WORDS = 2000


@dataclass(frozen=True)
class Window:
    """Measurement window of a load."""

    seconds: float
    ramp: float
    """Seconds of load before the window, which are not counted."""


def words(tokenizer: Path) -> list[tuple[str, int]]:
    """Return words for questions, with the number of tokens of each one after another word."""
    known = Tokenizer.from_file(str(tokenizer))
    dice = random.Random(0)  # noqa: S311 -- a load, not a secret
    letters = "etaoinshrdlucmfwyp"
    found = ["".join(dice.choices(letters, k=dice.randint(2, 7))) for _ in range(_WORDS)]
    return [(word, len(known.encode(f" {word}", add_special_tokens=False).ids)) for word in found]


def load(
    address: tuple[str, int],
    model: str,
    vocabulary: Sequence[tuple[str, int]],
    clients: int,
    window: Window,
    look: Callable[[], Used],
    lengths: Lengths | None = None,
    python: str = sys.executable,
) -> dict[str, Any]:
    """Run the load with a number of clients, and return the results.

    Raises Failed if a process of the load fails, or no request was answered.
    """
    lengths = lengths or Lengths()
    count = max(1, min(-(-clients // _CLIENTS_OF_A_PROCESS), (os.cpu_count() or 1) // 2))
    begin = time.monotonic() + _START_SECONDS
    opens = begin + window.ramp
    closes = opens + window.seconds
    jobs = [
        Job(*address, model, list(range(first, clients, count)), vocabulary, begin, closes, lengths)
        for first in range(count)
    ]
    (before, after), documents = _run_clients(jobs, opens, closes, look, python)
    observed = [RequestResult(*one) for document in documents for one in document["seen"]]
    cores = busy(before, after)
    busiest = max(document["cpu"] for document in documents) / (closes - begin)
    return {
        "clients": clients,
        "seconds": window.seconds,
        **summary(observed, opens, closes),
        "cores": cores,
        "cores_in_front": in_front(cores),
        "resident_mib": {part: round(size / 2**20) for part, size in sorted(after.resident.items())},
        "load_processes": count,
        "busiest_load_process_cores": round(busiest, 2),
    }


def _run_clients(
    jobs: Sequence[Job], opens: float, closes: float, look: Callable[[], Used], python: str
) -> tuple[tuple[Used, Used], list[dict[str, Any]]]:
    """Run the processes of clients, one for each job.

    Returns:
        Resource usage at the beginning and at the end of the window, and the report of each process.

    Raises:
        Failed: A process of the load fails.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(REPOSITORY)])}
    processes = [
        subprocess.Popen(  # noqa: S603 -- this package's own module
            [python, "-m", "bench.gpu.clients"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        for _ in jobs
    ]
    try:
        for process, job in zip(processes, jobs, strict=True):
            if process.stdin is None:
                raise Failed("the load process has no standard input for its job")
            process.stdin.write(json.dumps(asdict(job)).encode())
            process.stdin.close()
            process.stdin = None
        time.sleep(max(0.0, opens - time.monotonic()))
        before = look()
        time.sleep(max(0.0, closes - time.monotonic()))
        after = look()
        answers = [process.communicate(timeout=30) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, (_, errors) in zip(processes, answers, strict=True):
        if process.returncode:
            raise Failed(f"the load failed: {errors.decode(errors='replace')[-2000:]}")
    return (before, after), [json.loads(output) for output, _ in answers]


def summary(observed: Sequence[RequestResult], opens: float, closes: float) -> dict[str, Any]:
    """Return the summary of the requests that ended within the window. Raises Failed if there are none."""
    ended = [one for one in observed if opens <= one.last < closes]
    good = [one for one in ended if not one.error]
    if not good:
        raise Failed(f"no request was answered: {_errors(ended) or 'none ended'}")
    seconds = closes - opens
    ttft = sorted(1000 * (one.first - one.sent) for one in good)
    tpot = sorted(1000 * (one.last - one.first) / (one.tokens - 1) for one in good if one.tokens > 1)
    return {
        "requests": len(good),
        "errors": _errors(ended),
        "wrong_lengths": sum(one.tokens != one.desired for one in good),
        "requests_per_second": round(len(good) / seconds, 2),
        "tokens_per_second": round(sum(one.tokens for one in good) / seconds, 1),
        "mean_tokens_in": round(sum(one.prompt_tokens for one in good) / len(good), 1),
        "mean_tokens_out": round(sum(one.tokens for one in good) / len(good), 1),
        "ttft_p50_ms": round(percentile(ttft, 0.5), 1),
        "ttft_p95_ms": round(percentile(ttft, 0.95), 1),
        "tpot_p50_ms": round(percentile(tpot, 0.5), 2),
    }


def percentile(ordered: Sequence[float], part: float) -> float:
    """Return the value below which a fraction of the values lies, or 0 without values."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def _errors(observed: Sequence[RequestResult]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for one in observed:
        if one.error:
            found[one.error] = found.get(one.error, 0) + 1
    return found
