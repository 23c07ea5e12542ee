"""Which part of the way uses how many cores."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import psutil

IN_FRONT = ("proxy", "ingress", "replica", "gateway", "api-server")
"""The parts that a request passes before it reaches the engine."""

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
"""What a process's title contains, and the part that it belongs to; the first that fits."""


def group(title: str) -> str:
    """The part that a process belongs to by its command line, or by the title that it gave itself."""
    return next((name for part, name in _GROUPS if part in title), "other")


@dataclass(frozen=True)
class Used:
    """CPU seconds of processes up to a moment."""

    at: float
    seconds: Mapping[tuple[int, float], tuple[str, float]]
    """By process (number and time of its start): its part, and the seconds."""
    resident: Mapping[str, int]
    """Bytes of resident memory by part."""


def used(processes: Iterable[psutil.Process]) -> Used:
    """What each of the processes has used."""
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
    """Cores that each part used on average between two looks, without those that used next to none."""
    found: dict[str, float] = defaultdict(float)
    for process, (part, seconds) in after.seconds.items():
        found[part] += seconds - before.seconds.get(process, (part, 0.0))[1]
    span = after.at - before.at
    return {part: round(cpu / span, 3) for part, cpu in sorted(found.items()) if cpu / span >= 0.005}


def in_front(cores: Mapping[str, float]) -> float:
    """Cores used before the engine."""
    return round(sum(cores.get(part, 0.0) for part in IN_FRONT), 3)
