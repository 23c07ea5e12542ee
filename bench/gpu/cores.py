"""CPU cores that each part of a path uses."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import psutil

IN_FRONT = ("proxy", "ingress", "replica", "gateway", "api-server")
"""Parts that a request passes before it reaches the engine."""

_GROUPS = (
    ("ray::ProxyActor", "proxy"),
    ("ray::ServeController", "controller"),
    ("OpenAiIngress", "ingress"),
    ("ray::ServeReplica", "replica"),
    ("VLLM::EngineCore", "engine"),
    ("VLLM::Worker", "engine-worker"),
    ("RayWorkerWrapper", "engine-worker"),
    ("RayWorkerProc", "engine-worker"),
    ("haproxy", "gateway"),
    ("bench.gpu.gateway", "gateway"),
    ("VLLM::APIServer", "api-server"),
    ("vllm.entrypoints", "api-server"),
    ("gcs_server", "ray"),
    ("raylet", "ray"),
    ("ray/dashboard", "ray"),
)
"""Substring of a process title, and the part of the process; the first match counts."""


def group(title: str) -> str:
    """Return the part of a process by its command line, or by the title that the process set."""
    return next((name for part, name in _GROUPS if part in title), "other")


@dataclass(frozen=True)
class Used:
    """CPU seconds of processes up to a moment."""

    at: float
    seconds: Mapping[tuple[int, float], tuple[str, float]]
    """Part and CPU seconds by process (number and start time)."""
    resident: Mapping[str, int]
    """Bytes of resident memory by part."""


def used(processes: Iterable[psutil.Process]) -> Used:
    """Return the CPU seconds and memory of the processes."""
    seconds: dict[tuple[int, float], tuple[str, float]] = {}
    resident: dict[str, int] = defaultdict(int)
    for one in processes:
        try:
            with one.oneshot():
                times = one.cpu_times()
                part = group(" ".join(one.cmdline()))
                seconds[one.pid, one.create_time()] = part, times.user + times.system
                resident[part] += one.memory_info().rss
        except psutil.Error:
            continue
    return Used(time.monotonic(), seconds, resident)


def busy(before: Used, after: Used) -> dict[str, float]:
    """Return the average cores of each part between two samples, without parts that used almost none."""
    found: dict[str, float] = defaultdict(float)
    for process, (part, seconds) in after.seconds.items():
        found[part] += seconds - before.seconds.get(process, (part, 0.0))[1]
    span = after.at - before.at
    return {part: round(cpu / span, 3) for part, cpu in sorted(found.items()) if cpu / span >= 0.005}


def in_front(cores: Mapping[str, float]) -> float:
    """Return the cores used before the engine."""
    return round(sum(cores.get(part, 0.0) for part in IN_FRONT), 3)
