"""Measurement of one step: client processes, and samples of the engine's metrics."""

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial

from daybreak_runtime.benchmark.load.clients import READY, Job
from daybreak_runtime.benchmark.load.engine_metrics import Metrics, fetch, summary
from daybreak_runtime.benchmark.order import Load, Objective
from daybreak_runtime.benchmark.outcome import EngineSeen, FinishedRequest, Settings, Step, step

CLIENTS_OF_A_PROCESS = 16
REQUESTS_OF_A_PROCESS = 20.0
"""Requests per second of one process, in an open loop."""
START_SECONDS = 120.0
"""Maximum seconds until a process of the load is ready."""
_TOLD_SECONDS = 0.2
"""Seconds until the last process has received its job."""
_SAMPLE_SECONDS = 1.0
_LATE_SECONDS = 60.0


@dataclass(frozen=True)
class Target:
    """Server under load."""

    url: str
    """Base URL of the OpenAI API."""
    model: str
    key: str | None = None
    metrics: str | None = None
    """URL of the engine's metrics; None: they cannot be reached."""


@dataclass(frozen=True)
class Level:
    """Level of load: a number of clients, or a rate."""

    clients: int | None = None
    rate: float | None = None

    def __str__(self) -> str:
        return f"{self.clients} clients" if self.clients is not None else f"{self.rate:g} requests/s"


class LoadFailed(Exception):
    """A process of the load failed, so all figures of this step are invalid."""


def levels(load: Load) -> list[Level]:
    """Return the levels of a benchmark, the lowest first."""
    if load.clients:
        return [Level(clients=count) for count in sorted(set(load.clients))]
    return [Level(rate=rate) for rate in sorted(set(load.rates))]


def jobs(target: Target, load: Load, level: Level, processors: int, begin: float, end: float) -> list[Job]:
    """Return the jobs of the load's processes: at most one process for every two processors."""
    most = max(1, processors // 2)
    if level.clients is not None:
        count = max(1, min(-(-level.clients // CLIENTS_OF_A_PROCESS), most))
    else:
        count = max(1, min(int((level.rate or 0) / REQUESTS_OF_A_PROCESS) + 1, most))
    return [
        Job(
            url=target.url,
            model=target.model,
            key=target.key,
            load=load,
            clients=tuple(range(number, level.clients or 0, count)),
            rate=None if level.rate is None else level.rate / count,
            number=number,
            begin=begin,
            end=end,
        )
        for number in range(count)
    ]


def measure(target: Target, load: Load, level: Level, objective: Objective, settings: Settings) -> Step:
    """Apply one load to the target, and return the measured step. Raises LoadFailed."""
    spread = partial(jobs, target, load, level, len(os.sched_getaffinity(0)))
    running = [_start() for _ in spread(0.0, 0.0)]
    try:
        _ready(running)
        begin = time.monotonic() + _TOLD_SECONDS
        first = begin + load.ramp_seconds
        windows = [(first + n * load.seconds, first + (n + 1) * load.seconds) for n in range(load.windows)]
        end = windows[-1][1]
        sampler = Sampler(target.metrics, first, end)
        try:
            observed = _run(running, spread(begin, end), end)
        finally:
            engine = sampler.close()
    finally:
        for process in running:
            process.kill()
            process.wait()
    return step(settings, (level.clients, level.rate), observed, windows, objective, engine)


def _start() -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "daybreak_runtime.benchmark.load.clients"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)  # noqa: S603


def _ready(running: Sequence["subprocess.Popen[str]"]) -> None:
    """Wait until all processes are ready: on a busy machine that takes longer than many loads."""
    latest = time.monotonic() + START_SECONDS
    for process in running:
        output = process.stdout
        assert output is not None, "started with a pipe"  # noqa: S101
        message, _, _ = select.select([output], [], [], max(0.0, latest - time.monotonic()))
        if not message:
            raise LoadFailed(f"a process of the load was not ready within {START_SECONDS:g} s")
        if output.readline().strip() != READY:
            raise _failed(process.communicate()[1])


def _run(
    running: Sequence["subprocess.Popen[str]"], desired: Sequence[Job], end: float
) -> list[FinishedRequest]:
    patience = max(0.0, end - time.monotonic()) + _LATE_SECONDS
    try:
        with ThreadPoolExecutor(len(running)) as threads:
            outputs = list(
                threads.map(
                    lambda process, job: process.communicate(json.dumps(asdict(job)), timeout=patience),
                    running,
                    desired,
                )
            )
    except subprocess.TimeoutExpired as error:
        raise LoadFailed("a process of the load did not end") from error
    for process, (_, errors) in zip(running, outputs, strict=True):
        if process.returncode:
            raise _failed(errors)
    return [FinishedRequest(*one) for output, _ in outputs for one in json.loads(output)]


def _failed(errors: str) -> LoadFailed:
    return LoadFailed(f"a process of the load failed: {errors.strip()[-1000:]}")


class Sampler:
    """Sampler of the engine's metrics during an interval, in a thread.

    Args:
        url: URL of the metrics; None: no samples.
        first: Time of the first sample, on the monotonic clock.
        last: End of the interval.
    """

    def __init__(self, url: str | None, first: float, last: float) -> None:
        self._samples: list[Metrics] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        if url is not None:
            self._thread = threading.Thread(target=self._run, args=(url, first, last), daemon=True)
            self._thread.start()

    def close(self) -> EngineSeen | None:
        """Stop, and return a summary of the samples, or None if there are none."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(2 * _SAMPLE_SECONDS)
        return summary(self._samples)

    def _run(self, url: str, first: float, last: float) -> None:
        # The last sample is before the end, when the clients leave.
        moment = first
        while moment < last and not self._over.wait(max(0.0, moment - time.monotonic())):
            found = fetch(url)
            if found is not None:
                self._samples.append(found)
            moment = max(moment + _SAMPLE_SECONDS, time.monotonic())
