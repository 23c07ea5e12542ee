"""Effect of unschedulable wakes on starts and wakes of other services

A hundred sleeping services receive requests and wake: their worker pods are created and never get a node, and
requests to their Ray heads hang. In addition, services are created, put to sleep and woken by a request, one
after the other. The same series runs before these wakes begin and after they have ended, and the medians are
compared.

The control plane is etcd and kube-apiserver with KubeRay's and Daybreak's CRDs. The operator and one gateway
(agent and HAProxy) run in separate processes. The benchmark simulates KubeRay, which acts at once. The pods
are only objects. The Ray heads and their models are simulated (`starved_engine`), and answer at once or
never. Therefore the times are those of the operator, the API server and the gateway alone.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench import report
from bench.gateway.process import gateway
from bench.operator.reconcile import CRDS, NAMESPACE, add_node, service
from bench.operator.starved_engine import HANGS, MODEL
from cluster import ControlPlane, kuberay_crds, paths
from daybreak.api.common import names
from daybreak.gateway.hold.table import gate_name
from daybreak.protocol.reports import Update
from tests.api.admin import OWNED, Admin, eventually
from tests.api.operator_process import OperatorProcess
from tests.api.playing.kuberay import PlayedKubeRay, head_labels, play_pod

STARVED = 100
SETTLE_SECONDS = 15
"""Seconds before each series, so that the beginning of a hundred wakes is not measured."""
ROUNDS = 10
"""Number of services that each series measures, one after the other."""
LOOK_SECONDS = 0.005
_SINCE = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
_READY = {"type": "Ready", "status": "True", **_SINCE}
_SCHEDULED = {"type": "PodScheduled", "status": "True", **_SINCE}
_UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    **_SINCE,
}

GOALS: dict[str, report.Goal] = {
    "first_start_ratio": {"max": 1.2},
    "wake_ratio": {"max": 1.2},
    "starved_still_waking": {"min": STARVED},
}


def main(starved: int = STARVED, rounds: int = ROUNDS) -> None:
    """Measure and write `bench/results/starved.json`."""
    planes = ControlPlane(paths.control_plane("bench-starved"), crds=[kuberay_crds(), CRDS])
    with planes as plane, tempfile.TemporaryDirectory() as temporary:
        folder, admin = Path(temporary), Admin(plane.kubeconfig, NAMESPACE)
        add_node(admin)
        with (
            _engines(),
            OperatorProcess(plane.kubeconfig, folder / "operator.log", GATEWAY_IMAGE="gateway"),
            gateway(plane.kubeconfig, NAMESPACE, folder),
        ):
            play_pod(admin, f"{names.GATEWAY}-played", names.gateway_labels())
            _one(admin, "warm-up")
            alone = _series(admin, "before", rounds)
            with ExitStack() as requests:
                _starve(admin, starved, requests)
                beside = _series(admin, "beside", rounds)
                waking = sum(_phase(admin, _starved(index)) == "Waking" for index in range(starved))
            for index in range(starved):
                admin.delete("LLMService", _starved(index))
                _clear(admin, _starved(index))
            alone += _series(admin, "after", rounds)
    measures: dict[str, float] = {"starved_still_waking": waking}
    for step in alone[0]:
        usual, then = (statistics.median(each[step] for each in found) for found in (alone, beside))
        measures |= {
            f"{step}_alone_p50_seconds": round(usual, 3),
            f"{step}_beside_p50_seconds": round(then, 3),
            f"{step}_ratio": round(then / usual, 3),
        }
    goals = {**GOALS, "starved_still_waking": {"min": starved}}
    report.write(
        "starved",
        f"python -m bench.operator.starved --starved {starved} --rounds {rounds}",
        measures=measures,
        goals=goals,
        runs=[{"alone": alone, "beside": beside}],
        notes=f"{starved} wakes without a node; medians of {rounds} services alongside them, and of "
        f"{2 * rounds} alone, half of them before and half afterwards. Models and Ray heads are simulated. "
        "First start: from the creation until the gate is open. Wake: from the request until its response.",
    )


@contextmanager
def _engines() -> Iterator[None]:
    """Run the simulated Ray heads until the block ends."""
    command = [sys.executable, "-m", "bench.operator.starved_engine"]
    with subprocess.Popen(command, env=os.environ, stdout=subprocess.PIPE) as running:  # noqa: S603 -- ours
        try:
            assert running.stdout is not None  # noqa: S101 -- it is a pipe
            if not running.stdout.readline():
                raise RuntimeError("the stand-ins of the models could not listen: is a port taken?")
            yield
        finally:
            running.kill()


def _series(admin: Admin, name: str, rounds: int) -> list[dict[str, float]]:
    time.sleep(SETTLE_SECONDS)
    return [_one(admin, f"{name}-{number}") for number in range(rounds)]


def _one(admin: Admin, name: str) -> dict[str, float]:
    """Create a service, put it to sleep, wake it and remove it.

    Returns the durations of start and wake.
    """
    kuberay, manifest = PlayedKubeRay(admin), service(0)
    manifest["metadata"]["name"] = name
    manifest["spec"]["sleep"] = {"afterIdle": "1h"}
    began = time.monotonic()
    admin.create(manifest)
    _soon(lambda: admin.get("RayService", name))
    cluster = kuberay.cluster(name)
    kuberay.head(name, cluster)
    worker = _worker(admin, name, cluster, "first", _SCHEDULED)
    kuberay.status(name, cluster)
    _soon(lambda: _gate(admin, name) == "Open")
    started = time.monotonic() - began

    admin.merge("LLMService", name, {"spec": {"state": "Asleep"}})
    _soon(lambda: _phase(admin, name) == "Asleep")
    admin.delete("Pod", worker)
    admin.merge("LLMService", name, {"spec": {"state": None}})
    _soon(lambda: _held_at_gateway(name))
    _soon(lambda: _serve_asks_for(admin, name) == 0)

    began = time.monotonic()
    requested = _ask(admin, name)
    _soon(lambda: _serve_asks_for(admin, name) == 1)
    _worker(admin, name, cluster, "second", _SCHEDULED)
    kuberay.status(name, cluster)
    answer = requested.getresponse()
    woken = time.monotonic() - began
    message = answer.read()
    assert answer.status == 200, message  # noqa: S101 -- no result without
    requested.close()
    admin.delete("LLMService", name)
    _clear(admin, name)
    return {"first_start": started, "wake": woken}


def _starve(admin: Admin, count: int, requests: ExitStack) -> None:
    """Make a number of services wake without ever getting a node."""
    kuberay = PlayedKubeRay(admin)
    for index in range(count):
        manifest = service(0)
        manifest["metadata"]["name"] = _starved(index)
        manifest["spec"] |= {"state": "Asleep", "sleep": {"afterIdle": "1h"}}
        admin.create(manifest)
    clusters = {}
    for index in range(count):
        name = _starved(index)
        _soon(lambda name=name: admin.get("RayService", name))  # type: ignore[misc]
        clusters[name] = cluster = kuberay.cluster(name)
        play_pod(admin, f"{cluster}-head", head_labels(name, cluster), HANGS, conditions=[_READY])
        kuberay.status(name, cluster)
        admin.merge("LLMService", name, {"spec": {"state": None}})
    for name in clusters:
        _soon(lambda name=name: _held_at_gateway(name))  # type: ignore[misc]
        requests.callback(_ask(admin, name).close)
    for name, cluster in clusters.items():
        _soon(lambda name=name: _phase(admin, name) == "Waking")  # type: ignore[misc]
        _worker(admin, name, cluster, "pending", _UNSCHEDULABLE)
        kuberay.status(name, cluster)


def _worker(admin: Admin, name: str, cluster: str, suffix: str, scheduled: dict[str, str]) -> str:
    """Create a simulated worker pod, with or without a node, and return its name."""
    group, pod = names.worker_group(MODEL), f"{cluster}-{suffix}"
    labels = {
        **head_labels(name, cluster),
        names.RAY_NODE_TYPE_LABEL: "worker",
        names.RAY_GROUP_LABEL: group,
        names.MODEL_LABEL: group,
    }
    spec = {"serviceAccountName": "default", "containers": [{"name": "played", "image": "played"}]}
    metadata = {"name": pod, "labels": labels}
    admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    has_node = scheduled is _SCHEDULED
    message = {
        "phase": "Running" if has_node else "Pending",
        "conditions": [scheduled, *([_READY] if has_node else [])],
    }
    admin.merge("Pod", pod, {"status": message}, subresource="status")
    return pod


def _clear(admin: Admin, name: str) -> None:
    """Delete the objects that no garbage collector deletes here, so that no client's lists grow."""
    label = {"labelSelector": names.owner_selector(name)}
    for kind in ("Pod", "RayCluster", *OWNED):
        for found in admin.list(kind, **label):
            admin.delete(kind, found["metadata"]["name"])


def _ask(admin: Admin, name: str) -> http.client.HTTPConnection:
    """Send a request to a service through the gateway; its answer may take long."""
    port = admin.get("LLMService", name)["status"]["gate"]["port"]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = json.dumps({"model": MODEL, "prompt": "Hello"})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    return connection


def _starved(index: int) -> str:
    return f"starved-{index:03}"


def _phase(admin: Admin, name: str) -> Any:
    return (admin.get("LLMService", name).get("status") or {}).get("phase")


def _gate(admin: Admin, name: str) -> Any:
    status = admin.get("LLMService", name).get("status") or {}
    gates = (status.get("gate") or {}).get("models") or [{}]
    return gates[0].get("state")


def _held_at_gateway(name: str) -> bool:
    """Return True if the gateway reports that it holds requests to a service."""
    connection = http.client.HTTPConnection("127.0.0.1", names.GATEWAY_HTTP_PORT, timeout=10)
    connection.request("GET", "/state")
    update = Update.parse(json.loads(connection.getresponse().readline()))
    connection.close()
    found = update.services.get(gate_name(name, MODEL))
    return found is not None and found.gate == "closed"


def _serve_asks_for(admin: Admin, name: str) -> int:
    """Return the minimum number of replicas of the model in Serve's configuration."""
    config = admin.get("RayService", name)["spec"]["serveConfigV2"]
    return 0 if "min_replicas: 0" in config else 1


def _soon(look: Callable[[], Any]) -> None:
    eventually("the next step", look, seconds=300, pause=LOOK_SECONDS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starved", type=int, default=STARVED)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    main(**vars(parser.parse_args()))
