"""Time, requests and memory to reconcile a thousand LLMServices

The control plane is etcd and kube-apiserver with KubeRay's and Daybreak's CRDs, without KubeRay itself. The
operator is a separate process with the settings of the default installation; a loader creates the
LLMServices. All share this machine's cores. Requests are those that the API server itself has counted. The
renewals of a Lease are writes too, every few seconds regardless of other work; they are counted separately.
The objects of the namespace's gateway are also counted separately: their number is the same for one
LLMService and for a thousand. Nothing creates the gateway's pods here. Every client has a token, as pods
have. The clock starts when the API server has finished its own start.

Between these runs, there is one run with five thousand LLMServices, a thousand in each namespace, because a
namespace's gateway has at most 1,024 ports. The `large_…` measures are the cost of that run, and the cost per
LLMService relative to the runs with a thousand.

The speed of the machine differs from hour to hour. Therefore, after each run, a loader that does nothing else
makes the same writes on a new control plane (`bench.operator.bare_writes`), and the two are compared. There
are also runs with a thousand before and after the large one.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench import report
from bench.operator import accounts, bare_writes, loader
from cluster import ControlPlane, kuberay_crds, paths
from cluster.control_plane.plane import ETCD
from daybreak.api.common import names
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.gateways.objects import gateway
from tests import installed
from tests.api.admin import ALL_OWNED, Admin, eventually
from tests.api.operator_process import OperatorProcess

SERVICES = 1000
RUNS = 3
LARGE = 5000
"""Number of LLMServices of the large run."""
PER_NAMESPACE = 1000
"""Maximum number of LLMServices in one namespace."""
IDLE_SECONDS = 60.0
LOOK_SECONDS = 0.5
"""Seconds between checks of a time series for completion. All of 5,000 services take 0.2 s to render."""
QUIET_PERCENT = 5.0
"""Maximum CPU usage of an idle API server, in percent of a core."""
NAMESPACE = "default"
GATEWAY_OBJECTS = len(gateway(NAMESPACE, [LLM_SERVICES], installed.platform()))
"""Number of objects of the namespace's gateway."""
GATEWAY_WRITES = GATEWAY_OBJECTS + 1
"""Number of writes for the gateway: the API server keeps each Service's address in a separate object."""
OF_SERVICES = f"{names.OWNER_NAME_LABEL},{names.COMPONENT_LABEL}!={names.GATEWAY_COMPONENT}"
"""Label selector of the objects that the operator has made for LLMServices."""
_RENEWALS = ("leases", "PUT")
"""Resource and verb of the writes with which the operator renews its Lease."""
CRDS = Path(__file__).resolve().parents[2] / "charts" / "daybreak" / "files" / "crds"

GOALS: dict[str, report.Goal] = {
    "seconds_until_all_exist": {"max": 30},
    "writes_per_service": {"max": 12},
    "operator_rss_mib": {"max": 150},
    "idle_writes": {"max": 0},
    "ratio_to_bare_writes": {"max": 1.35},
    "large_seconds_per_service_ratio": {"max": 1.2},
    "large_operator_cpu_per_service_ratio": {"max": 1.2},
    "large_idle_writes": {"max": 0},
}


def main(services: int = SERVICES, runs: int = RUNS, large: int = LARGE) -> None:
    """Measure and write `bench/results/reconcile.json`; `large=0` skips the large run."""
    sizes = [services] * runs
    if large:
        sizes.insert(runs // 2, large)
    done = [_run(number, size) for number, size in enumerate(sizes, 1)]
    many = done.pop(runs // 2) if large else None
    measures = {name: report.median([run[name] for run in done]) for name in done[0]}
    if many is not None:
        measures |= _compared(measures, services, many, large)
        done.append(many)
    report.write(
        "reconcile",
        f"python -m bench.operator.reconcile --services {services} --runs {runs} --large {large}",
        measures=measures,
        goals={name: goal for name, goal in GOALS.items() if name in measures},
        runs=done,
        notes=f"Medians of {runs} runs of {services} LLMServices"
        + (f", and one run of {large} between them" if large else "")
        + ". RSS is the maximum of a run. "
        f"Writes exclude the {GATEWAY_WRITES} for each namespace's gateway. "
        "Bare writes are the same writes without an operator: no watches and no decisions.",
    )


def _compared(usual: dict[str, float], services: int, many: dict[str, float], large: int) -> dict[str, float]:
    """Return the costs of many services, and the cost of one of them relative to one of few."""
    kept = (
        "seconds_until_all_exist",
        "requests_per_service",
        "operator_rss_mib",
        "operator_idle_cpu_percent",
        "idle_writes",
        "ratio_to_bare_writes",
    )
    found = {f"large_{name}": many[name] for name in kept}
    for name, measure in (
        ("seconds", "seconds_until_all_exist"),
        ("operator_cpu", "operator_cpu_seconds"),
        ("apiserver_cpu", "apiserver_cpu_seconds"),
        ("bare_writes_seconds", "bare_writes_seconds"),
    ):
        ratio = (many[measure] / large) / (usual[measure] / services)
        found[f"large_{name}_per_service_ratio"] = round(ratio, 3)
    for name, run, count in (("", usual, services), ("large_", many, large)):
        grown = run["operator_rss_mib"] - run["operator_rss_empty_mib"]
        found[f"{name}rss_kib_per_service"] = round(grown * 1024 / count, 1)
    return found


def _run(number: int, services: int) -> dict[str, Any]:
    namespaces = [_namespace(index) for index in range(0, services, PER_NAMESPACE)]
    with _plane() as plane, tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        admin = Admin(accounts.loader(plane, folder), NAMESPACE)
        add_node(admin)
        for name in namespaces[1:]:
            admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        bodies = [(_namespace(index), json.dumps(service(index)).encode()) for index in range(services)]
        with OperatorProcess(accounts.operator(plane, folder), folder / "log", **_settings()) as operator:
            _wait_until_quiet(plane)
            before, cpu = admin.writes(), _cpu_seconds(plane, operator)
            rss_empty = operator.memory()
            began = time.monotonic()
            _create(admin, bodies)
            created = time.monotonic()
            _wait_until_written(operator, services, len(namespaces))
            ended = time.monotonic()
            cpu = {name: used - cpu[name] for name, used in _cpu_seconds(plane, operator).items()}
            _check_owned(admin, namespaces, services)
            time.sleep(5)  # work in progress is not idle traffic
            after = admin.writes()
            writes = (
                sum(after.values())
                - sum(before.values())
                - (after[_RENEWALS] - before.get(_RENEWALS, 0))
                - services
                - GATEWAY_WRITES * len(namespaces)
            )
            requests = operator.metric("daybreak_api_requests_total")
            idle = _idle(admin, operator, after)
            result = {
                "seconds_until_all_exist": round(ended - began, 2),
                "seconds_of_creating": round(created - began, 2),
                "writes_per_service": round(writes / services, 3),
                "requests_per_service": round(requests / services, 2),
                "operator_rss_mib": round(operator.memory("VmHWM") / 2**20, 1),
                "operator_rss_idle_mib": round(operator.memory() / 2**20, 1),
                "operator_rss_empty_mib": round(rss_empty / 2**20, 1),
                **{f"{name}_cpu_seconds": round(used, 2) for name, used in cpu.items()},
                **idle,
            }
            written = bare_writes.read(admin, _name(0))
    seconds = _bare(written, services)
    result |= {
        "bare_writes_seconds": round(seconds, 2),
        "ratio_to_bare_writes": round(result["seconds_until_all_exist"] / seconds, 3),
    }
    print(f"reconcile: run {number}: {result}", flush=True)
    return result


def _wait_until_written(operator: OperatorProcess, services: int, namespaces: int) -> None:
    """Wait until the operator has written every object and status."""
    eventually(
        "every owned object and status written",
        lambda: (
            operator.metric("daybreak_writes_total")
            >= services * (len(ALL_OWNED) + 1) + GATEWAY_OBJECTS * namespaces
        ),
        seconds=1800,
        pause=LOOK_SECONDS,
    )


def _check_owned(admin: Admin, namespaces: list[str], services: int) -> None:
    for kind in ALL_OWNED:
        found = sum(len(admin.within(name).list(kind, labelSelector=OF_SERVICES)) for name in namespaces)
        assert found == services, f"{found} of {services} {kind}s"  # noqa: S101 -- no result without


def _idle(admin: Admin, operator: OperatorProcess, before: Mapping[tuple[str, str], int]) -> dict[str, float]:
    """Return the operator's work while nothing changes; `before` are the writes so far."""
    requests, cpu = _requests(operator), operator.cpu_seconds()
    time.sleep(IDLE_SECONDS)
    still, cpu = admin.writes(), operator.cpu_seconds() - cpu
    return {
        "operator_idle_cpu_percent": round(100 * cpu / IDLE_SECONDS, 2),
        "idle_writes": sum(still.values()) - sum(before.values()) - (still[_RENEWALS] - before[_RENEWALS]),
        "idle_lease_renewals": still[_RENEWALS] - before[_RENEWALS],
        "idle_requests": _requests(operator) - requests,
    }


def _settings() -> dict[str, str]:
    """Return the operator's settings, except the port, which is any free one here."""
    return {name: value for name, value in installed.settings().items() if name != "HTTP_PORT"}


def _bare(written: bare_writes.Written, services: int) -> float:
    """Return the seconds of the same writes without an operator, all in one namespace."""
    with _plane() as plane, tempfile.TemporaryDirectory() as folder:
        admin = Admin(accounts.loader(plane, Path(folder)), NAMESPACE)
        _wait_until_quiet(plane)
        return bare_writes.write(admin, written, [_name(index) for index in range(services)])


@contextmanager
def _plane() -> Iterator[ControlPlane]:
    with ControlPlane(paths.control_plane("bench-reconcile"), crds=[kuberay_crds(), CRDS]) as plane:
        yield plane


def _wait_until_quiet(plane: ControlPlane) -> None:
    """Wait at most a minute until the API server has finished its own start."""
    record = plane.apiserver
    assert record is not None  # noqa: S101 -- the control plane runs
    server = psutil.Process(record.pid)
    server.cpu_percent()
    for _ in range(30):
        time.sleep(2)
        if server.cpu_percent() < QUIET_PERCENT:
            return


def _requests(operator: OperatorProcess) -> float:
    """Return the number of the operator's requests, without those for the Lease."""
    return operator.metric("daybreak_api_requests_total") - operator.metric(
        "daybreak_api_requests_total", resource="leases"
    )


def _cpu_seconds(plane: ControlPlane, operator: OperatorProcess) -> dict[str, float]:
    """Return the CPU time that each process has used so far, because they share the cores."""
    records = {"apiserver": plane.apiserver, "etcd": plane.processes.get(ETCD)}
    processes = {name: psutil.Process(record.pid) for name, record in records.items() if record is not None}
    processes |= {"operator": psutil.Process(operator.pid), "loader": psutil.Process()}
    used = {name: process.cpu_times() for name, process in processes.items()}
    return {name: times.user + times.system for name, times in used.items()}


def _create(admin: Admin, bodies: list[tuple[str, bytes]]) -> None:
    """Create the LLMServices, each in its namespace."""
    paths_ = {name: admin.within(name).path("LLMService") for name, _ in bodies}
    loader.spread(admin, lambda send, body: send("POST", paths_[body[0]], body[1]), bodies)


def add_node(admin: Admin) -> None:
    """Add a simulated node on which the models fit: services that fit on no node get no objects."""
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}})
    admin.merge("Node", "node", {"status": {"allocatable": resources, "capacity": resources}}, "status")


def _namespace(index: int) -> str:
    """Return the namespace of an LLMService."""
    number = index // PER_NAMESPACE
    return f"{NAMESPACE}-{number}" if number else NAMESPACE


def _name(index: int) -> str:
    return f"bench-{index:04}"


def service(index: int) -> dict[str, Any]:
    """Return the manifest of an LLMService."""
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": _name(index)},
        "spec": {
            "models": [
                {
                    "name": "llama",
                    "source": "hf://meta-llama/Llama-3.1-8B-Instruct",
                    "engine": {"args": {"max_model_len": 8192, "max_num_seqs": 16}},
                    "replicas": {"min": 1, "max": 2},
                }
            ]
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=SERVICES)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--large", type=int, default=LARGE)
    main(**vars(parser.parse_args()))
