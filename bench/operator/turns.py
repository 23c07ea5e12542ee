"""GPU sharing of twenty services on two GPUs, by turns or by idle time

One hour of requests, most of them to a few services, runs at ten times the speed. Every service has `sleep`
with `yield: Always`. In the comparison, it has `yield: Never`: a service releases its GPU after `afterIdle`
without a request, and the first service to wake is served first. Requests and settings are the same. The GPU
seconds computed within the hour are also compared with the schedule of a planner that knows all requests in
advance (`bench.operator.turns_schedule`). That schedule has the same wakes and no other delays.

The API server, its controllers and scheduler, KubeRay's operator, Daybreak's operator, and a gateway (agent
and HAProxy) are real; every request passes through the gateway. kwok simulates two nodes with one GPU each
and one node without. The benchmark also simulates engines, Ray heads, Ray's autoscaler (`turns_stage`), and
the status that Serve reports to KubeRay. An engine starts 3 seconds after its pod runs, and computes one
request at a time.

The operator's own times are not compressed, which distorts the result. The operator waits 5 seconds before it
treats an unschedulable pod as waiting, and calls a model idle after 2 seconds. It learns about Serve through
KubeRay, which polls every 2 seconds. Each handover of a GPU therefore costs ten times its real share of the
hour. Pods of simulated nodes also start and end at once: no image is pulled, and no node is slow.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp

from bench import report
from bench.gateway.process import gateway
from bench.operator.reconcile import CRDS, NAMESPACE
from bench.operator.turns_arrivals import HOUR, Request, Shape, arrivals
from bench.operator.turns_schedule import Fleet, omniscient, unlimited, within
from bench.operator.turns_stage import ADDRESSES, MODEL, Stage, addresses_here, prompt
from bench.ready import is_ready
from cluster import ControlPlane, FakeNode, kuberay_crds, paths
from tests.api.admin import Admin, eventually
from tests.api.operator_process import OperatorProcess
from tests.gpu.looks import TOLERATED
from tests.gpu.played_serve import PlayedServe
from tests.kuberay_process import kuberay
from tests.turns_bound import longest_wait

COMPRESSION = 10.0
SEED = 18
WAYS = {"turns": "Always", "own_clocks": "Never"}
FLEET = Fleet(gpus=2, wake=3.0)
AFTER_IDLE = 900.0
"""Idle time of each service in seconds of the real hour: the default."""
MIN_AWAKE = 120.0
"""Minimum awake time in seconds of the real hour: four times the duration of a wake."""
OVERTIME_SECONDS = 120.0
"""Seconds after the hour for which answers are awaited; then clients give up."""
STANDSTILL_SECONDS = 30.0
"""Seconds without progress beyond the idle time, with waiting requests, that count as a deadlock."""
LOOK_SECONDS = 0.25

GOALS: dict[str, report.Goal] = {
    "turns_lost": {"max": 0},
    "turns_deadlocks": {"max": 0},
    "turns_longest_wait_to_bound": {"max": 1},
    "turns_busy_to_omniscient": {"min": 0.9},
    "turns_most_gpus_held": {"max": FLEET.gpus},
}


@dataclass
class _Run:
    """Results of one run."""

    waits: list[float] = field(default_factory=list)
    """Seconds of each answered request, without the engine's compute time."""
    errors: list[str] = field(default_factory=list)
    unanswered: int = 0
    """Number of requests without an answer at the end."""
    standstills: list[float] = field(default_factory=list)
    """Seconds without progress while requests waited."""
    waiting: int = 0
    """Number of requests that currently wait."""

    def looks(self, began: float, *, moving: bool) -> float:
        """Record whether anything moves, and return the time since which nothing does."""
        now = time.monotonic()
        if not moving and self.waiting:
            return began
        self.standstills.append(now - began)
        return now


def main(compression: float = COMPRESSION, seed: int = SEED, sessions: int = Shape().sessions) -> None:
    """Measure and write `bench/results/turns.json`."""
    shape = Shape(sessions=sessions)
    requests, hour = arrivals(shape, compression, seed), HOUR / compression
    best, most = omniscient(requests, FLEET, hour), unlimited(requests, hour)
    min_awake = MIN_AWAKE / compression
    awake, stream = min_awake + FLEET.wake, max(request.seconds for request in requests)
    longest = longest_wait(shape.services, FLEET.gpus, timedelta(seconds=awake), timedelta(seconds=stream))
    bound = longest.total_seconds()
    measures: dict[str, float] = {
        "requests": len(requests),
        "bound_seconds": bound,
        "omniscient_busy_share": best.busy / hour / FLEET.gpus,
        "unlimited_busy_share": most / hour / FLEET.gpus,
        "omniscient_longest_wait_seconds": best.longest_wait,
    }
    runs = []
    for way, yields in WAYS.items():
        sleep = {
            "afterIdle": f"{AFTER_IDLE / compression:.0f}s",
            "minAwake": f"{min_awake:.0f}s",
            "yield": yields,
        }
        found = _way(way, requests, hour, shape.services, sleep, AFTER_IDLE / compression)
        print(f"turns: {way}: {found}", flush=True)
        runs.append({"way": way, **found})
        measures |= {
            f"{way}_{name}": value for name, value in found.items() if isinstance(value, int | float)
        }
        measures[f"{way}_busy_to_omniscient"] = found["busy_share"] / measures["omniscient_busy_share"]
        measures[f"{way}_longest_wait_to_bound"] = found["longest_wait_seconds"] / bound
    report.write(
        "turns",
        f"python -m bench.operator.turns --compression {compression:g} --seed {seed} --sessions {sessions}",
        measures=measures,
        goals=GOALS,
        runs=runs,
        notes=f"One run of each configuration. An hour lasts {hour:.0f} seconds, and clients wait for "
        f"responses for {OVERTIME_SECONDS:.0f} seconds more. Seconds are seconds of the measurement. Busy: "
        "share of the hour in which the two GPUs compute. Lost: an error, or no response in all that time. A "
        "wait is a request's duration without its engine's computation; if it received no response, its "
        "whole duration. The bound is that of docs/sleep.md: the longest request, and one turn of each of "
        "the others (minAwake, the start, the longest request, 10 s), two at a time. Deadlock: a request "
        "waits, and no engine starts "
        f"or computes for {STANDSTILL_SECONDS:.0f} seconds beyond afterIdle. `unlimited`: a GPU for each "
        "service, always awake.",
    )


def _way(
    way: str, requests: Sequence[Request], hour: float, services: int, sleep: dict[str, str], idle: float
) -> dict[str, Any]:
    """Run the hour with these settings, on a separate control plane."""
    with tempfile.TemporaryDirectory() as temporary, _plane(Path(temporary)) as (admin, serve, operator):
        stage = Stage(admin, FLEET.wake)
        serve.running = stage.running
        run, began = asyncio.run(_hour(stage, admin, requests, hour, services, sleep))
        yields = operator.metric("daybreak_yields_total")
        errors = operator.errors
    if errors:
        raise RuntimeError(f"the operator has logged errors: {errors[:3]}")
    spans = [(begin - began, end - began) for engine in stage.engines for begin, end in engine.spans]
    waits = sorted(run.waits)
    return {
        "lost": len(run.errors) + run.unanswered,
        "answered": len(waits) - run.unanswered - len(run.errors),
        "deadlocks": sum(each > idle + STANDSTILL_SECONDS for each in run.standstills),
        "longest_standstill_seconds": max(run.standstills, default=0.0),
        "busy_share": sum(within(*span, hour) for span in spans) / hour / FLEET.gpus,
        "median_wait_seconds": report.median(waits),
        "p95_wait_seconds": waits[int(0.95 * len(waits))],
        "longest_wait_seconds": waits[-1],
        "wakes": len(stage.engines),
        "yields": yields,
        "most_gpus_held": stage.most_gpus,
        "errors": run.errors[:10],
    }


@contextmanager
def _plane(folder: Path) -> Iterator[tuple[Admin, PlayedServe, OperatorProcess]]:
    """Run the control plane with its nodes, KubeRay, the operator and the gateway."""
    nodes = [FakeNode("plain", gpus=0, taints=()), *(FakeNode(f"gpu-{n}", gpus=1) for n in range(FLEET.gpus))]
    planes = ControlPlane(
        paths.control_plane("bench-turns"),
        crds=[CRDS, kuberay_crds()],
        controllers=True,
        scheduler=True,
        fake_nodes=nodes,
        fake_pods=ADDRESSES,
    )
    settings = {"GATEWAY_IMAGE": "gateway", "GATEWAY_REPLICAS": "1"}
    with (
        addresses_here(),
        PlayedServe() as serve,
        planes as plane,
        kuberay(plane, proxy=serve.proxy),
        OperatorProcess(plane.kubeconfig, folder / "operator.log", **settings) as operator,
        # Listen on all addresses of this machine, because kwok assigns one of them to the gateway's pod.
        gateway(plane.kubeconfig, NAMESPACE, folder, GATEWAY_ADDRESS=""),
    ):
        yield Admin(plane.kubeconfig, NAMESPACE), serve, operator


async def _hour(
    stage: Stage,
    admin: Admin,
    requests: Sequence[Request],
    hour: float,
    services: int,
    sleep: dict[str, str],
) -> tuple[_Run, float]:
    """Create the services asleep, send the requests, and return the results and the start time."""
    async with stage.plays():
        for index in range(services):
            await asyncio.to_thread(admin.create, _service(index, sleep))
        ports = await asyncio.to_thread(_asleep, admin, services)
        run, began = _Run(), time.monotonic()
        limits = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=limits) as session:
            requested = [
                asyncio.create_task(_ask(session, ports[each.service], each, run, began)) for each in requests
            ]
            still = began
            while not all(task.done() for task in requested):
                still = run.looks(still, moving=stage.moving)
                if time.monotonic() > began + hour + OVERTIME_SECONDS:
                    break
                await asyncio.sleep(LOOK_SECONDS)
            run.looks(still, moving=True)
            for task in requested:
                task.cancel()
            await asyncio.gather(*requested, return_exceptions=True)
    return run, began


async def _ask(session: aiohttp.ClientSession, port: int, request: Request, run: _Run, began: float) -> None:
    """Send a request at its time, and record its answer."""
    await asyncio.sleep(began + request.at - time.monotonic())
    body = {"model": MODEL, "prompt": prompt(request.number, request.seconds), "max_tokens": 1}
    sent, computed = time.monotonic(), 0.0
    run.waiting += 1
    try:
        async with session.post(f"http://127.0.0.1:{port}/v1/completions", json=body) as answer:
            text = await answer.text()
        if answer.status != 200 or f"answer {request.number}" not in text:
            run.errors.append(f"request {request.number} at {request.at:.1f} s: {answer.status} {text[:300]}")
            return
        computed = request.seconds
    except aiohttp.ClientError as error:
        run.errors.append(f"request {request.number} at {request.at:.1f} s: {error!r}")
        return
    except asyncio.CancelledError:
        run.unanswered += 1
        raise
    finally:
        run.waiting -= 1
        run.waits.append(time.monotonic() - sent - computed)


def _service(index: int, sleep: dict[str, str]) -> dict[str, Any]:
    """Return the manifest of a service, asleep until its first request."""
    model = {
        "name": MODEL,
        "source": "hf://o/small",
        "accelerator": {"tolerations": TOLERATED},
        "replicas": {"min": 0, "initial": 0, "max": 1},
    }
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": _name(index)},
        "spec": {"models": [model], "sleep": sleep, "hold": {"timeout": "30m"}},
    }


def _asleep(admin: Admin, services: int) -> list[int]:
    """Return the services' ports when all of them sleep, have a Ray head each, and hold requests."""

    def look() -> list[int]:
        found = {each["metadata"]["name"]: each for each in admin.list("LLMService") if is_ready(each)}
        statuses = [found.get(_name(index), {}).get("status", {}) for index in range(services)]
        ready = [each for each in statuses if each.get("sleepDepth") and (each.get("gate") or {}).get("port")]
        return [status["gate"]["port"] for status in ready] if len(ready) == services else []

    return eventually("all asleep", look, seconds=300, pause=1)


def _name(index: int) -> str:
    return f"turn-{index:02}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compression", type=float, default=COMPRESSION)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--sessions", type=int, default=Shape().sessions)
    main(**vars(parser.parse_args()))
