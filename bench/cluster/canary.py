"""Request share of a canary, and its rollback after a failure

Two ModelServers and an LLMRoute, with the second one as its canary, run on the embedded cluster with two
gateways. The simulated engines answer at once with their name (`canary_engine`), so the route itself is
measured. Requests arrive at a steady pace, over kept-alive connections, at the namespace's address `llm`.

First, the canary is as good as the other model, and passes two steps. The share of a step counts the requests
that were sent while the status showed its weight, without the first and the last second. Then the canary
restarts, and in the middle of a step its engine begins to answer 500.

The measurement needs the embedded cluster with Daybreak installed (`make up`), and removes the sample while
it runs.
"""

import argparse
import asyncio
import base64
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench import report
from bench.cluster.waking import PATIENCE_SECONDS, delete, room
from bench.ready import is_ready
from cluster import paths
from cluster.images import catalog
from cluster.tools.report import Report
from quickstart import install
from tests.api.admin import Admin, eventually

ROUTE, STABLE, CANARY = "bench-canary", "bench-stable", "bench-next"
ENGINE = Path(__file__).with_name("canary_engine.py")
PYTHON = "/opt/daybreak/bin/python"
"""Path of Python in the gateway's image."""
STEPS = (10, 50)
"""Weights of the canary's steps in percent."""
STEP_SECONDS = 30
FAILING_STEP = 20
"""Weight in percent of the step in which the canary begins to fail."""
CALM_SECONDS = 15.0
"""Seconds in that step before the failure."""
PACE = 100
"""Requests per second."""
EDGE_SECONDS = 1.0
LOOK_SECONDS = 0.2
_FAILED = "failed"

GOALS: dict[str, report.Goal] = {
    "share_error_percent": {"max": 1},
    "lost": {"max": 0},
    "returned": {"min": 1},
}


@dataclass(frozen=True)
class _Answer:
    sent: float
    """Time of sending on the monotonic clock."""
    who: str
    """Name of the engine, or `failed`, or another error."""


@dataclass(frozen=True)
class _Look:
    at: float
    """Time on the monotonic clock."""
    phase: str
    weight: int
    """Weight of the canary in percent, according to the status."""


def main(pace: int = PACE) -> None:
    """Measure and write `bench/results/canary.json`."""
    admin, progress = Admin(paths.KUBECONFIG, install.SAMPLE_NAMESPACE), Report()
    with room(admin), _servers(admin, progress):
        try:
            with progress.step("a canary that does as well"):
                _route(admin, "1", [{"weight": weight, "duration": f"{STEP_SECONDS}s"} for weight in STEPS])
                good, observed = asyncio.run(_send_requests(admin, "1", pace, "Promoted", lambda: None))
            shares = {weight: _share(good, observed, weight) for weight in STEPS}
            with progress.step("a canary that fails"):
                _route(admin, "2", [{"weight": FAILING_STEP, "duration": "10m"}])
                bad, _ = asyncio.run(_send_requests(admin, "2", pace, "RolledBack", lambda: _fail(admin)))
        finally:
            delete(admin, "LLMRoute", ROUTE)
    failed = sorted(answer.sent for answer in bad if answer.who == _FAILED)
    lost = [answer.who for answer in (*good, *bad) if answer.who not in (STABLE, CANARY, _FAILED)]
    report.write(
        "canary",
        f"python -m bench.cluster.canary --pace {pace}",
        measures={
            "share_error_percent": max(abs(100 * share - weight) for weight, (share, _) in shares.items()),
            **{f"share_at_{weight}_percent": 100 * share for weight, (share, _) in shares.items()},
            **{f"requests_at_{weight}_percent": sent for weight, (_, sent) in shares.items()},
            "returned": int(bool(failed)),
            "seconds_to_return": failed[-1] - failed[0] if failed else 0.0,
            "failed_until_then": len(failed),
            "lost": len(lost) + sum(answer.who == _FAILED for answer in good),
        },
        goals=GOALS,
        runs=[
            {"looks": [[round(look.at, 1), look.phase, look.weight] for look in observed], "lost": lost[:10]}
        ],
        notes=f"{pace} requests per second; two gateways; steps of {STEP_SECONDS} s. The rollback time runs "
        f"from the first to the last response 500, at a share of {FAILING_STEP} %, after {CALM_SECONDS:.0f} "
        "s without an error.",
    )


@contextmanager
def _servers(admin: Admin, progress: Report) -> Iterator[None]:
    script = base64.b64encode(ENGINE.read_bytes()).decode()
    try:
        with progress.step("two engines"):
            for name in (STABLE, CANARY):
                code = f"import base64; exec(base64.b64decode('{script}'))"
                spec = {
                    "engine": "custom",
                    "image": catalog.references()["gateway"],
                    "command": [PYTHON, "-c", code],
                    "args": [name, "{port}"],
                    "readinessPath": "/health",
                    "model": {"name": name, "source": "file:///opt/daybreak"},
                    "accelerator": {"kind": "cpu"},
                    "resources": {"cpu": "100m", "memory": "256Mi"},
                }
                admin.create(
                    {
                        "apiVersion": "daybreak.dev/v1alpha1",
                        "kind": "ModelServer",
                        "metadata": {"name": name},
                        "spec": spec,
                    }
                )
            for name in (STABLE, CANARY):
                eventually(
                    f"{name} is ready",
                    lambda name=name: is_ready(admin.get("ModelServer", name)),  # type: ignore[misc]
                    PATIENCE_SECONDS,
                    1,
                )
        yield
    finally:
        for name in (STABLE, CANARY):
            delete(admin, "ModelServer", name)


def _route(admin: Admin, run: str, steps: Sequence[dict[str, Any]]) -> None:
    backends = [{"kind": "ModelServer", "service": name, "model": name} for name in (STABLE, CANARY)]
    analysis = {"errorRate": 0.01, "minRequests": 100}
    canary = {**backends[1], "steps": list(steps), "analysis": analysis, "runID": run}
    spec = {"names": [ROUTE], "backends": backends, "canary": canary}
    if admin.get("LLMRoute", ROUTE) is None:
        about = {"apiVersion": "daybreak.dev/v1alpha1", "kind": "LLMRoute", "metadata": {"name": ROUTE}}
        admin.create({**about, "spec": spec})
    else:
        admin.merge("LLMRoute", ROUTE, {"spec": spec})


def _fail(admin: Admin) -> None:
    """Make the canary's engine answer 500 from now on, with a request that bypasses the gateway."""
    (pod,) = admin.list(
        "Pod", labelSelector=f"daybreak.dev/owner-kind=ModelServer,daybreak.dev/owner-name={CANARY}"
    )
    (port,) = pod["spec"]["containers"][0]["ports"]
    address = f"http://{pod['status']['podIP']}:{port['containerPort']}/fail"
    request = urllib.request.Request(address, b"", method="POST")
    with urllib.request.urlopen(request, timeout=10):  # noqa: S310 -- Daybreak's pod
        pass


def _is_listed(base: str) -> bool:
    """Return True if a gateway answers at the address and has the route."""
    try:
        with urllib.request.urlopen(f"{base}/models", timeout=10) as answer:  # noqa: S310 -- a known Service
            return ROUTE in answer.read().decode()
    except OSError:
        return False


async def _send_requests(
    admin: Admin, run: str, pace: int, until: str, in_the_middle: Callable[[], None]
) -> tuple[list[_Answer], list[_Look]]:
    """Send requests, call `in_the_middle` during the rollout, and stop soon after the phase is `until`."""
    base = f"http://{admin.get('Service', 'llm')['spec']['clusterIP']}/v1"
    url = f"{base}/completions"
    await asyncio.to_thread(eventually, "the route is listed", lambda: _is_listed(base), seconds=60)
    answers: list[_Answer] = []
    looks: list[_Look] = []
    requested: list[asyncio.Task[None]] = []
    limits = aiohttp.ClientTimeout(total=60)
    over, reported = asyncio.Event(), False
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=limits) as session:
        sending = asyncio.create_task(_send(session, url, pace, answers, requested, over))
        began = None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            look = await asyncio.to_thread(_look, admin, run)
            looks.append(look)
            if look.phase == "Progressing" and began is None:
                began = look.at
            if began is not None and not reported and look.at > began + CALM_SECONDS:
                reported = True
                await asyncio.to_thread(in_the_middle)
            if look.phase == until:
                break
            await asyncio.sleep(LOOK_SECONDS)
        else:
            raise RuntimeError(f"the canary is not {until}: {looks[-1]}")
        await asyncio.sleep(5)
        over.set()
        await sending
        await asyncio.gather(*requested)
    return answers, looks


async def _send(
    session: aiohttp.ClientSession,
    url: str,
    pace: int,
    answers: list[_Answer],
    requested: list[asyncio.Task[None]],
    over: asyncio.Event,
) -> None:
    began = time.monotonic()
    while not over.is_set():
        await asyncio.sleep(began + len(requested) / pace - time.monotonic())
        requested.append(asyncio.create_task(_ask(session, url, answers)))


async def _ask(session: aiohttp.ClientSession, url: str, answers: list[_Answer]) -> None:
    sent = time.monotonic()
    try:
        async with session.post(url, json={"model": ROUTE, "prompt": "Who?", "max_tokens": 1}) as answer:
            message = await answer.json(content_type=None)
            own = "failure was requested" in str(message)
            who = message["choices"][0]["text"] if answer.status == 200 else _FAILED if own else str(message)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        who = repr(error)
    answers.append(_Answer(sent, who))


def _look(admin: Admin, run: str) -> _Look:
    at = time.monotonic()
    status = (admin.get("LLMRoute", ROUTE) or {}).get("status") or {}
    canary = status.get("canary") or {}
    phase = canary.get("phase", "") if canary.get("runID") == run else ""
    weights = [each.get("weight", 0) for each in status.get("backends", ())]
    return _Look(at, phase, weights[1] if len(weights) > 1 else 0)


def _share(answers: Sequence[_Answer], looks: Sequence[_Look], weight: int) -> tuple[float, int]:
    """Return the canary's share of the requests in a step with this weight, and the number of requests."""
    during = [look.at for look in looks if look.weight == weight and look.phase == "Progressing"]
    begin, end = during[0] + EDGE_SECONDS, during[-1] - EDGE_SECONDS
    there = [answer for answer in answers if begin <= answer.sent < end]
    return sum(answer.who == CANARY for answer in there) / len(there), len(there)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pace", type=int, default=PACE)
    main(**vars(parser.parse_args()))
