"""Three tiny models that share one accelerator on the embedded cluster

There are two LLMServices, one of them with two models. Each model requests one accelerator, and the node has
one. The accelerator is only a named resource: the models compute on CPUs with real vLLM in real Ray, and
everything else is as in every cluster. Each client sends its requests one after the other over a kept-alive
connection; a seeded generator selects the model of each request. There are far fewer clients than requests. A
model therefore has its turn until all clients wait for the other two, yields, and wakes again with its next
request. A held request waits for the turns of two other models. Each answer is matched to its request by the
number in it.

The measurement needs the embedded cluster with Daybreak installed (`make up`), and removes the sample while
it runs.
"""

import argparse
import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
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
"""Number of clients: few enough that each model yields and wakes again, and many enough for long turns.

A turn must be worth its wake of 35 s.
"""
SERVICES = {"bench-turns-0": ("red", "green"), "bench-turns-1": ("blue",)}
"""Models of each LLMService."""
MODELS = {model: service for service, models in SERVICES.items() for model in models}
"""LLMService of each model."""
MIN_AWAKE = "5s"
WATCH_SECONDS = 2
"""Seconds of one watch; the next one begins at its end, so that no turn is missed."""

GOALS: dict[str, report.Goal] = {
    "sent": {"min": REQUESTS},
    "lost": {"max": 0},
    "answered_wrongly": {"max": 0},
    "most_models_with_room": {"max": 1},
    # Each model must have yielded and woken again.
    "turns": {"min": 2 * len(MODELS)},
}


@dataclass
class _Tally:
    lost: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Duration of each request."""
    awake: list[str] = field(default_factory=list)
    """Awake models in the order of their turns."""
    has_room: set[tuple[str, str]] = field(default_factory=set)
    """Names of the pods that currently have a node, with their models."""
    most: int = 0
    """Maximum number of models that had a pod on the node at once."""


def main(requests: int = REQUESTS, seed: int = SEED, clients: int = CLIENTS) -> None:
    """Measure and write `bench/results/turns-real.json`."""
    admin, progress = Admin(paths.KUBECONFIG, install.SAMPLE_NAMESPACE), Report()
    with room(admin), slots(admin, 1):
        try:
            with progress.step("three models of two services, asleep"):
                for name in SERVICES:
                    admin.create(_manifest(name))
                for name in SERVICES:
                    _wait_for_cluster(admin, name)
            began = time.monotonic()
            tally = asyncio.run(_ask_all(admin, _order(requests, seed), clients, progress))
            took = time.monotonic() - began
        finally:
            for name in SERVICES:
                delete(admin, "LLMService", name)
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
        notes=f"{clients} clients, {len(SERVICES)} LLMServices. No model falls asleep by its idle time "
        f"(afterIdle 1h, minAwake {MIN_AWAKE}). Turns: number of changes of the awake model, counted by a "
        "watch.",
    )


def _wait_for_cluster(admin: Admin, name: str) -> None:
    def there() -> bool:
        return is_ready(admin.get("RayService", name) or {})

    eventually(f"the Ray cluster of {name} is there", there, PATIENCE_SECONDS, 1)


def _order(requests: int, seed: int) -> list[str]:
    """Return the model of each request; all models have the same number of requests."""
    models = list(MODELS)
    order = [models[number % len(models)] for number in range(requests)]
    random.Random(seed).shuffle(order)  # noqa: S311 -- made up
    return order


def _manifest(name: str) -> dict[str, Any]:
    """Return the tiny sample with all models of a service, and the simulated accelerator."""
    manifest = sample_manifest()
    (tiny,) = manifest["spec"]["models"]
    accelerator = {"kind": "gpu", "resource": SLOT}
    own = {"accelerator": accelerator, "replicas": {"min": 0, "initial": 0, "max": 1}}
    resources = {**tiny["resources"], "memory": "4Gi", "sharedMemory": "1Gi"}
    spec = {
        **manifest["spec"],
        "models": [{**tiny, **own, "name": model, "resources": resources} for model in SERVICES[name]],
        "runtime": {**manifest["spec"]["runtime"], "image": catalog.references()["ray-cpu"]},
        "sleep": {"afterIdle": "1h", "minAwake": MIN_AWAKE, "yield": "Always"},
        "hold": {"timeout": "30m"},
    }
    return {**manifest, "metadata": {"name": name}, "spec": spec}


async def _ask_all(admin: Admin, order: list[str], clients: int, progress: Report) -> _Tally:
    tally, left = _Tally(), deque(enumerate(order, 1))
    addresses = {name: admin.get("Service", name)["spec"]["clusterIP"] for name in SERVICES}
    limits = aiohttp.ClientTimeout(total=2 * PATIENCE_SECONDS)
    connector = aiohttp.TCPConnector(limit=clients, keepalive_timeout=PATIENCE_SECONDS)
    async with aiohttp.ClientSession(connector=connector, timeout=limits) as session:

        async def client() -> None:
            while left:
                number, model = left.popleft()
                base = f"http://{addresses[MODELS[model]]}/v1/completions"
                await _ask(session, base, number, model, tally)

        watches = [
            asyncio.create_task(_watch(admin, "LLMService", partial(_see_gates, tally, progress))),
            asyncio.create_task(_watch(admin, "Pod", partial(_see_pod, tally))),
        ]
        await asyncio.gather(*(client() for _ in range(clients)))
        for watch in watches:
            if watch.done():
                watch.result()
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
    return tally


async def _ask(session: aiohttp.ClientSession, base: str, number: int, model: str, tally: _Tally) -> None:
    prompt = f"request {number}:"
    body = {"model": model, "prompt": prompt, "max_tokens": 2, "echo": True}
    began = time.monotonic()
    try:
        async with session.post(base, json=body) as answer:
            message = await answer.json(content_type=None)
            if answer.status != 200:
                tally.lost.append(f"{prompt} {answer.status} {message}")
            elif message["model"] != model or not message["choices"][0]["text"].startswith(prompt):
                tally.wrong.append(f"{prompt} {message}")
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        tally.lost.append(f"{prompt} {error!r}")
    tally.seconds.append(time.monotonic() - began)


async def _watch(admin: Admin, kind: str, see: Callable[[dict[str, Any]], None]) -> None:
    """Report every change of a kind in order, starting with the existing objects."""
    path = admin.path(kind)
    listed = await asyncio.to_thread(admin.request, "GET", path)
    for item in listed["items"]:
        see({"type": "ADDED", "object": item})
    version = listed["metadata"]["resourceVersion"]
    while True:
        for event in await asyncio.to_thread(admin.events, kind, version, WATCH_SECONDS):
            version = event["object"]["metadata"]["resourceVersion"]
            see(event)


def _see_gates(tally: _Tally, progress: Report, event: dict[str, Any]) -> None:
    """Record the awake models."""
    service = event["object"]
    if service["metadata"]["name"] not in SERVICES:
        return
    for gate in ((service.get("status") or {}).get("gate") or {}).get("models") or ():
        if gate["phase"] == "Awake" and tally.awake[-1:] != [gate["name"]]:
            tally.awake.append(gate["name"])
            progress.write(f"{gate['name']} is awake; {len(tally.seconds)} answered")


def _see_pod(tally: _Tally, event: dict[str, Any]) -> None:
    """Record how many models have worker pods on the node."""
    pod = event["object"]
    labels = pod["metadata"].get("labels", {})
    if names.labelled_owner(labels) not in SERVICES or labels.get(names.RAY_NODE_TYPE_LABEL) != "worker":
        return
    has_room = (
        event["type"] != "DELETED"
        and pod["spec"].get("nodeName")
        and pod["status"].get("phase") in ("Pending", "Running")
    )
    entry = (pod["metadata"]["name"], labels[names.MODEL_LABEL])
    if has_room:
        tally.has_room.add(entry)
    else:
        tally.has_room.discard(entry)
    tally.most = max(tally.most, len({model for _, model in tally.has_room}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    main(**vars(parser.parse_args()))
