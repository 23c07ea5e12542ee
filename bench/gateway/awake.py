"""Gateway cost of a thousand awake, idle LLMServices

The control plane is etcd and kube-apiserver with Daybreak's CRD. One gateway (agent and HAProxies) runs in
separate processes. The benchmark simulates the operator (each service's gate is open) and one head pod per
service. All heads are one HAProxy on this machine, which answers the gateway's health checks.
"""

import argparse
import concurrent.futures
import re
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

from bench import report
from bench.gateway import steady_paths
from bench.gateway.memory import pod_mib
from bench.gateway.process import gateway, parts
from bench.operator.loader import LOADERS
from bench.operator.reconcile import CRDS, NAMESPACE, service
from cluster import ControlPlane, paths
from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.playing.kuberay import head_labels, play_pod

SERVICES = 1000
IDLE_SECONDS = 60.0
SETTLE_SECONDS = 20.0
"""Seconds before the idle measurement, so that work in progress does not count as idle."""

GOALS: dict[str, report.Goal] = {
    "haproxy_idle_cpu_percent": {"max": 2},
    "agent_idle_cpu_percent": {"max": 2},
    "gateway_memory_mib": {"max": 120},
}


def main(services: int = SERVICES, seconds: float = IDLE_SECONDS) -> None:
    """Measure and write `bench/results/awake.json`."""
    planes = ControlPlane(paths.control_plane("bench-awake"), crds=[CRDS])
    with planes as plane, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        admin = Admin(plane.kubeconfig, NAMESPACE)
        with steady_paths.model(folder) as direct:
            port = direct[0].port
            with concurrent.futures.ThreadPoolExecutor(LOADERS) as pool:
                list(pool.map(lambda index: _open(admin, index), range(services)))
            with gateway(plane.kubeconfig, NAMESPACE, folder, GATEWAY_SERVE_PORT=str(port)) as supervisor:
                eventually("all served", lambda: _served() == services, seconds=300, pause=2)
                run = _idle(supervisor, seconds)
    print(f"awake: {run}", flush=True)
    report.write(
        "awake",
        f"python -m bench.gateway.awake --services {services} --seconds {seconds:g}",
        measures=run,
        goals=GOALS,
        runs=[run],
        notes=(
            f"{services} services with open gates; one gateway; no requests. The run includes the health "
            "checks of every service's server (one each 20 s). gateway_memory_mib is the memory of the "
            "gateway's six processes as the kernel charges a pod: shared files count once. gateway_rss_mib "
            "is the sum of their RSS."
        ),
    )


def _open(admin: Admin, index: int) -> None:
    """Create a service with an open gate, and its head pod."""
    manifest = service(index)
    name, model = manifest["metadata"]["name"], manifest["spec"]["models"][0]["name"]
    admin.create(manifest)
    open_gate = {"name": model, "state": "Open", "epoch": 1, "holdSeconds": 300}
    open_gate |= {"phase": "Awake", "phaseTransitionTime": "2026-01-01T00:00:00Z"}
    backends = [{"cluster": f"{name}-abcde"}]
    gate = {"port": names.GATEWAY_PORTS[0] + index, "backends": backends, "models": [open_gate]}
    admin.merge("LLMService", name, {"status": {"gate": gate}}, "status")
    play_pod(admin, f"{name}-head", head_labels(name, f"{name}-abcde"))


def _served() -> int:
    """Return the number of services whose server answers, according to the gateway."""
    url = f"http://127.0.0.1:{names.GATEWAY_HTTP_PORT}/metrics"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return 0
    return len(re.findall(r"^daybreak_gateway_servers_up\{.*\} 1\.0$", text, re.MULTILINE))


def _idle(supervisor: psutil.Process, seconds: float) -> dict[str, float]:
    time.sleep(SETTLE_SECONDS)
    processes = parts(supervisor)
    before = {name: _cpu_seconds(some) for name, some in processes.items()}
    time.sleep(seconds)
    used = {name: _cpu_seconds(some) - before[name] for name, some in processes.items()}
    rss = {name: sum(each.memory_info().rss for each in some) / 2**20 for name, some in processes.items()}
    return {
        "gateway_memory_mib": round(pod_mib(some for each in processes.values() for some in each), 1),
        **{f"{name}_idle_cpu_percent": round(100 * used[name] / seconds, 2) for name in processes},
        "gateway_rss_mib": round(sum(rss.values()), 1),
        "haproxy_rss_mib": round(rss["haproxy"], 1),
    }


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=SERVICES)
    parser.add_argument("--seconds", type=float, default=IDLE_SECONDS)
    main(**vars(parser.parse_args()))
