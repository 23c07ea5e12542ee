"""Three tiny models on the embedded cluster, where one of them has room: requests in random order.

One LLMService with three models, each of which asks for an accelerator of a resource of which the node has
one. The accelerator is a name only: the models compute on CPUs, by real vLLM in real Ray, and all else is as
in every cluster. Clients send the requests one after the other each, over connections that stay open; which
model is asked by each request is decided by a seeded generator. There are far fewer clients than requests: a
model has its turn until all clients wait for the other two, yields, and comes back when it is asked again.
Whoever is held waits for two other models' turns. Each answer is matched to its request by the number in it.

Needs the embedded cluster with Daybreak installed (`make up`); its sample goes away for so long.
"""

import argparse
import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from bench import report
from bench.cluster.slots import SLOT, slots
from bench.cluster.waking import PATIENCE_SECONDS, delete, room, sample_manifest
from bench.ready import is_ready
from cluster import paths
from cluster.images import catalog
from cluster.tools.report import Report
from daybreak.api.common import names
from quickstart import install
from tests.api.admin import Admin, eventually

REQUESTS = 300
SEED = 18
CLIENTS = 40
"""Few enough that each model yields and comes back, so many that a turn is worth its wake of 35 s."""
NAME = "bench-turns"
MODELS = ("red", "green", "blue")
MIN_AWAKE = "5s"
LOOK_SECONDS = 1.0

GOALS: dict[str, report.Goal] = {
    "sent": {"min": REQUESTS},
    "lost": {"max": 0},
    "answered_wrongly": {"max": 0},
    "most_models_with_room": {"max": 1},
    # Each model has yielded, and come back.
    "turns": {"min": 2 * len(MODELS)},
}


@dataclass
class _Tally:
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Of each request."""
    awake: list[str] = field(default_factory=list)
    """The models that were awake, one after the other."""
    most: int = 0
    """Most models at once that had a pod on the node."""


def main(requests: int = REQUESTS, seed: int = SEED, clients: int = CLIENTS) -> None:
    """Measure and write bench/results/turns-real.json."""
    admin, progress = Admin(paths.KUBECONFIG, install.SAMPLE_NAMESPACE), Report()
    with room(admin), slots(admin, 1):
        try:
            with progress.step("three models, asleep"):
                admin.create(_manifest())
                eventually(
                    "its Ray cluster is there",
                    lambda: is_ready(admin.get("RayService", NAME) or {}),
                    PATIENCE_SECONDS,
                    1,
                )
            began = time.monotonic()
            tally = asyncio.run(_ask_all(admin, _order(requests, seed), clients, progress))
            took = time.monotonic() - began
        finally:
            delete(admin, "LLMService", NAME)
    report.write(
        "turns-real",
        f"python -m bench.cluster.turns_real --requests {requests} --seed {seed} --clients {clients}",
        measures={
            "sent": len(tally.seconds),
            "lost": len(tally.lost),
            "answered_wrongly": len(tally.wrong),
            "most_models_with_room": tally.most,
            "turns": len(tally.awake),
            "median_seconds": report.median(tally.seconds),
            "slowest_seconds": max(tally.seconds),
            "seconds": took,
        },
        goals={**GOALS, "sent": {"min": requests}},
        runs=[{"lost": tally.lost[:10], "wrong": tally.wrong[:10], "awake": tally.awake}],
        notes=f"{clients} clients. Nobody falls asleep by its own clock (afterIdle 1h, minAwake "
        f"{MIN_AWAKE}). Turns: how often another model came to be awake.",
    )


def _order(requests: int, seed: int) -> list[str]:
    """Which model each request asks: each as often as the others."""
    order = [MODELS[number % len(MODELS)] for number in range(requests)]
    random.Random(seed).shuffle(order)  # noqa: S311 -- made up
    return order


def _manifest() -> dict[str, Any]:
    """The tiny sample three times over, with an accelerator in name."""
    manifest = sample_manifest()
    (tiny,) = manifest["spec"]["models"]
    accelerator = {"kind": "gpu", "resource": SLOT}
    own = {"accelerator": accelerator, "replicas": {"min": 0, "initial": 0, "max": 1}}
    resources = {**tiny["resources"], "memory": "4Gi", "sharedMemory": "1Gi"}
    spec = {
        **manifest["spec"],
        "models": [{**tiny, **own, "name": name, "resources": resources} for name in MODELS],
        "runtime": {**manifest["spec"]["runtime"], "image": catalog.references()["ray-cpu"]},
        "sleep": {"afterIdle": "1h", "minAwake": MIN_AWAKE, "yield": "Turn"},
        "hold": {"timeout": "30m"},
    }
    return {**manifest, "metadata": {"name": NAME}, "spec": spec}


async def _ask_all(admin: Admin, order: list[str], clients: int, progress: Report) -> _Tally:
    tally, left = _Tally(), deque(enumerate(order, 1))
    base = f"http://{admin.get('Service', NAME)['spec']['clusterIP']}/v1/completions"
    limits = aiohttp.ClientTimeout(total=2 * PATIENCE_SECONDS)
    connector = aiohttp.TCPConnector(limit=clients, keepalive_timeout=PATIENCE_SECONDS)
    async with aiohttp.ClientSession(connector=connector, timeout=limits) as session:

        async def client() -> None:
            while left:
                number, model = left.popleft()
                await _ask(session, base, number, model, tally)

        watching = asyncio.create_task(_watch(admin, tally, progress))
        await asyncio.gather(*(client() for _ in range(clients)))
        if watching.done():
            watching.result()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return tally


async def _ask(session: aiohttp.ClientSession, base: str, number: int, model: str, tally: _Tally) -> None:
    prompt = f"request {number}:"
    body = {"model": model, "prompt": prompt, "max_tokens": 2, "echo": True}
    began = time.monotonic()
    try:
        async with session.post(base, json=body) as answer:
            said = await answer.json(content_type=None)
            if answer.status != 200:
                tally.lost.append(f"{prompt} {answer.status} {said}")
            elif said["model"] != model or not said["choices"][0]["text"].startswith(prompt):
                tally.wrong.append(f"{prompt} {said}")
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        tally.lost.append(f"{prompt} {error!r}")
    tally.seconds.append(time.monotonic() - began)


async def _watch(admin: Admin, tally: _Tally, progress: Report) -> None:
    """Take in which model is awake, and how many have pods on the node."""
    while True:
        service = await asyncio.to_thread(admin.get, "LLMService", NAME)
        gates = ((service.get("status") or {}).get("gate") or {}).get("models") or ()
        for gate in gates:
            if gate["phase"] == "Awake" and tally.awake[-1:] != [gate["name"]]:
                tally.awake.append(gate["name"])
                progress.say(f"{gate['name']} is awake; {len(tally.seconds)} answered")
        label = f"{names.SERVICE_LABEL}={NAME},{names.RAY_NODE_TYPE_LABEL}=worker"
        pods = await asyncio.to_thread(admin.list, "Pod", labelSelector=label)
        # A pod that has ended, and is still listed, has none any more.
        there = {
            pod["metadata"]["labels"][names.MODEL_LABEL]
            for pod in pods
            if pod["spec"].get("nodeName") and pod["status"].get("phase") in ("Pending", "Running")
        }
        tally.most = max(tally.most, len(there))
        await asyncio.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    main(**vars(parser.parse_args()))
