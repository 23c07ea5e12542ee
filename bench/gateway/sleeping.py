"""Gateway and operator cost of a thousand sleeping LLMServices

The control plane is etcd and kube-apiserver with KubeRay's and Daybreak's CRDs. The operator and one gateway
(agent and HAProxy) run in separate processes, and the operator listens to the gateway as it does in a
cluster. The benchmark simulates the gateway's Pod object, which reports that it runs at 127.0.0.1.
`spec.state: Asleep` puts the services to sleep and is then removed: they stay asleep, and a request would
wake them.
"""

import argparse
import concurrent.futures
import http.client
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bench import report
from bench.gateway.process import gateway
from bench.gateway.process import parts as gateway_parts
from bench.operator.loader import LOADERS
from bench.operator.reconcile import CRDS, NAMESPACE, add_node, service
from cluster import ControlPlane, kuberay_crds, paths
from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.operator_process import OperatorProcess
from tests.api.playing.kuberay import play_pod

SERVICES = 1000
IDLE_SECONDS = 60.0
ARRIVALS = 20
"""Number of services that receive a request at the end, in sequence, to measure how soon each one wakes."""

GOALS: dict[str, report.Goal] = {
    "gateway_rss_mib": {"max": 120},
    "operator_idle_cpu_percent": {"max": 2},
}


def main(services: int = SERVICES) -> None:
    """Measure and write `bench/results/sleeping.json`."""
    planes = ControlPlane(paths.control_plane("bench-sleeping"), crds=[kuberay_crds(), CRDS])
    with planes as plane, tempfile.TemporaryDirectory() as folder:
        admin = Admin(plane.kubeconfig, NAMESPACE)
        add_node(admin)
        log = Path(folder) / "operator.log"
        with (
            OperatorProcess(plane.kubeconfig, log, GATEWAY_IMAGE="gateway") as operator,
            gateway(plane.kubeconfig, NAMESPACE, Path(folder)) as agent,
        ):
            play_pod(admin, f"{names.GATEWAY}-played", names.gateway_labels())
            _put_to_sleep(admin, services)
            run = _idle(operator, agent) | _arrivals(admin)
    print(f"sleeping: {run}", flush=True)
    report.write(
        "sleeping",
        f"python -m bench.gateway.sleeping --services {services}",
        measures=run,
        goals=GOALS,
        runs=[run],
        notes=f"{services} services; one gateway. RSS is the sum of its agent, supervisor and HAProxies.",
    )


def _put_to_sleep(admin: Admin, services: int) -> None:
    def create(index: int) -> None:
        manifest = service(index)
        manifest["spec"] |= {"state": "Asleep", "sleep": {"afterIdle": "1h"}}
        admin.create(manifest)

    def let_go(index: int) -> None:
        admin.merge("LLMService", service(index)["metadata"]["name"], {"spec": {"state": None}})

    with concurrent.futures.ThreadPoolExecutor(LOADERS) as pool:
        list(pool.map(create, range(services)))
        eventually("all asleep", lambda: _asleep(admin, "Failed") == services, seconds=600, pause=2)
        list(pool.map(let_go, range(services)))
        eventually("all still asleep", lambda: _asleep(admin, "Closed") == services, seconds=600, pause=2)


def _asleep(admin: Admin, gate: str) -> int:
    statuses = [each.get("status") or {} for each in admin.list("LLMService")]
    return sum(
        bool(each.get("sleepDepth")) and each["gate"]["models"][0]["state"] == gate for each in statuses
    )


def _idle(operator: OperatorProcess, agent: psutil.Process) -> dict[str, float]:
    time.sleep(10)  # work in progress is not idle
    parts = {"operator": [psutil.Process(operator.pid)], **gateway_parts(agent)}
    before = {name: _cpu_seconds(part) for name, part in parts.items()}
    time.sleep(IDLE_SECONDS)
    used = {name: _cpu_seconds(part) - before[name] for name, part in parts.items()}
    rss = {name: sum(each.memory_info().rss for each in part) / 2**20 for name, part in parts.items()}
    return {
        "gateway_rss_mib": round(rss["agent"] + rss["haproxy"], 1),
        "haproxy_rss_mib": round(rss["haproxy"], 1),
        "operator_rss_mib": round(rss["operator"], 1),
        **{f"{name}_idle_cpu_percent": round(100 * used[name] / IDLE_SECONDS, 2) for name in parts},
    }


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _arrivals(admin: Admin) -> dict[str, float]:
    """Return the seconds from a request to a sleeping service until its status reports the wake."""
    taken = []
    for index in range(ARRIVALS):
        name = service(index)["metadata"]["name"]
        port = admin.get("LLMService", name)["status"]["gate"]["port"]
        connection = http.client.HTTPConnection("127.0.0.1", port)
        began = time.monotonic()
        connection.request("POST", "/v1/completions", b"{}", {"Content-Type": "application/json"})
        while _phase(admin, name) != "Waking":
            time.sleep(0.005)
        taken.append(time.monotonic() - began)
        connection.close()
    return {
        "arrival_to_waking_p50_ms": round(1000 * statistics.median(taken), 1),
        "arrival_to_waking_max_ms": round(1000 * max(taken), 1),
    }


def _phase(admin: Admin, name: str) -> Any:
    return admin.get("LLMService", name)["status"]["phase"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=SERVICES)
    main(**vars(parser.parse_args()))
