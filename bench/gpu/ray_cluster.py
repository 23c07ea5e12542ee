"""Ray's head and worker on one machine, each started like its pod."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.gpu.ask import ask
from bench.gpu.processes import Failed, Process, environment, until
from bench.gpu.render import REPOSITORY, Pod, Rendered

HOST = "127.0.0.1"
_RAY = Path("/opt/daybreak/bin/ray")
"""Path of Daybreak's `ray` in the image; on other machines Ray's own is used."""
RUNTIME = REPOSITORY / "runtime" / "src"
"""Folder of the package daybreak_runtime."""
_START_SECONDS = 120.0
_ATTEMPTS = 3


@dataclass(frozen=True)
class Ports:
    """Ports of all listeners, so that two checks can run on one machine."""

    first: int

    @property
    def gcs(self) -> int:
        """Return the port of Ray's control store."""
        return self.first

    @property
    def dashboard(self) -> int:
        """Return the port of the dashboard, which has Serve's API."""
        return self.first + 1

    @property
    def serve(self) -> int:
        """Return the port of Serve's proxy."""
        return self.first + 2

    @property
    def engine(self) -> int:
        """Return the port of `vllm serve`."""
        return self.first + 3

    @property
    def gateway(self) -> int:
        """Return the port of the gateway in front of Serve's proxy."""
        return self.first + 20

    @property
    def gateway_direct(self) -> int:
        """Return the port of the gateway in front of the replica's direct port."""
        return self.first + 40

    def agent(self, node: int) -> int:
        """Return the first of four ports of a node's agents."""
        return self.first + 4 + 4 * node

    def direct(self, worker: int) -> int:
        """Return a worker's direct port for its replica."""
        return self.first + 60 + worker


@dataclass
class RayCluster:
    """Ray head, and a worker that starts and stops."""

    ports: Ports
    folder: Path
    """Folder for logs and Ray's sessions; its path must be short."""
    more: Mapping[str, str]
    """Variables of the image."""
    python: str = sys.executable
    """Python with Ray's packages."""
    head_python: str = ""
    """Python of the head if the head has a separate image. Defaults to the Python of the worker."""
    head_more: Mapping[str, str] = field(default_factory=dict)
    """Variables of the head's image."""
    log: list[dict[str, Any]] = field(default_factory=list)
    """Changes of Serve's status, with their times."""
    _head: Process | None = None
    _worker: Process | None = None

    @property
    def dashboard(self) -> tuple[str, int]:
        """Return the address of Serve's API."""
        return HOST, self.ports.dashboard

    def start_head(self, pod: Pod) -> float:
        """Start the head, and return the seconds until its API answered."""
        began = time.monotonic()
        command = [
            "--head",
            f"--port={self.ports.gcs}",
            f"--dashboard-host={HOST}",
            f"--dashboard-port={self.ports.dashboard}",
            f"--temp-dir={self.folder / 'ray'}",
        ]
        # The head must see no device.
        no_device = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
        self._head = self._start_up(
            lambda: self._start("head", 0, command, pod, no_device), "Ray's head", self._status
        )
        return time.monotonic() - began

    def start_worker(self, pod: Pod, more: Mapping[str, str] | None = None) -> float:
        """Start the worker, and return the seconds until the head registered it; `more` are variables."""
        began = time.monotonic()
        own = {"DAYBREAK_HTTP_PORT": str(self.ports.direct(0)), **(more or {})}
        before, command = self._nodes(), [f"--address={HOST}:{self.ports.gcs}"]
        self._worker = self._start_up(
            lambda: self._start("worker", 1, command, pod, own),
            "Ray's worker",
            lambda: self._nodes() > before or None,
        )
        return time.monotonic() - began

    def stop_worker(self) -> None:
        """End the worker and its processes."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def stop(self) -> None:
        """End all processes of the cluster."""
        self.stop_worker()
        if self._head is not None:
            self._head.end()
            self._head = None

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the cluster."""
        return [one for process in (self._head, self._worker) if process for one in process.family()]

    def deploy(self, rendered: Rendered) -> None:
        """Deploy the configuration to Serve. Raises Failed if Serve rejects it."""
        answer = ask(self.dashboard, "PUT", "/api/serve/applications/", rendered.config)
        if answer is None or answer.status != 200:
            raise Failed(f"Serve refuses the configuration: {answer}")

    def wait_running(self, seconds: float) -> dict[str, Any]:
        """Wait until every application runs, and return Serve's status.

        Raises Failed with Serve's message.
        """

        def running() -> dict[str, Any] | None:
            status = self._status() or {}
            applications = status.get("applications") or {}
            if failed := [one for one in applications.values() if one["status"] == "DEPLOY_FAILED"]:
                raise Failed(f"Serve: {_reasons(failed[0])}")
            done = applications and all(one["status"] == "RUNNING" for one in applications.values())
            return status if done else None

        return until("the application runs", running, seconds, *self._alive())

    def wait_replicas(self, deployment: str, count: int, seconds: float) -> None:
        """Wait until a number of replicas of a deployment run."""

        def there() -> bool | None:
            replicas = self.replicas(deployment)
            return (len(replicas) == count and set(replicas) <= {"RUNNING"}) or None

        until(f"{count} replicas of {deployment}", there, seconds, *self._alive())

    def replicas(self, deployment: str) -> list[str]:
        """Return the states of a deployment's replicas."""
        applications = (self._status() or {}).get("applications") or {}
        return [
            replica["state"]
            for application in applications.values()
            for name, one in application["deployments"].items()
            if name == deployment
            for replica in one["replicas"]
        ]

    def placement_groups(self) -> list[list[dict[str, Any]]]:
        """Return the created placement groups: the resources and node of each bundle."""
        answer = ask(self.dashboard, "GET", "/api/v0/placement_groups?detail=1")
        if answer is None or answer.status != 200:
            raise Failed(f"Ray does not report its placement groups: {answer}")
        return [
            [{"resources": each["unit_resources"], "node": each["node_id"]} for each in group["bundles"]]
            for group in answer.json["data"]["result"]["result"]
            if group["state"] == "CREATED"
        ]

    @property
    def logs(self) -> Path:
        """Return the folder of the session's logs."""
        return self.folder / "ray" / "session_latest" / "logs"

    def _alive(self) -> list[Process]:
        return [process for process in (self._head, self._worker) if process is not None]

    def _nodes(self) -> int:
        answer = ask(
            self.dashboard, "GET", "/api/v0/nodes?filter_keys=state&filter_predicates=%3D&filter_values=ALIVE"
        )
        return 0 if answer is None or answer.status != 200 else int(answer.json["data"]["result"]["total"])

    def _start_up(
        self, start: Callable[[], Process], what: str, look: Callable[[], object | None]
    ) -> Process:
        """Start a node, and retry until it stays up, as Kubernetes restarts a pod's container.

        `ray start` gives up after half a minute, which can be too short on a busy machine.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            process = start()
            try:
                until(what, look, _START_SECONDS, process)
            except BaseException as error:
                process.end()
                if attempt == _ATTEMPTS or not isinstance(error, Failed):
                    raise
            else:
                return process
        raise AssertionError("the last attempt returns or raises")

    def _start(self, name: str, node: int, command: list[str], pod: Pod, own: Mapping[str, str]) -> Process:
        first = self.ports.agent(node)
        apart = self.head_python if name == "head" else ""
        ray = [str(_RAY)] if _RAY.exists() else [apart or self.python, "-m", "ray.scripts.scripts"]
        ports = [
            f"--dashboard-agent-listen-port={first}",
            f"--dashboard-agent-grpc-port={first + 1}",
            f"--runtime-env-agent-port={first + 2}",
            f"--metrics-export-port={first + 3}",
            "--min-worker-port=0",
            "--max-worker-port=0",
        ]
        runtime = {"PYTHONPATH": str(RUNTIME)} if RUNTIME.exists() else {}
        image = self.head_more if apart else self.more
        variables = environment(image, pod.environment, runtime, own)
        return Process(
            name,
            [*ray, "start", "--block", *command, *ports, *pod.ray_start],
            variables,
            self.folder / f"{name}.log",
        )

    def _status(self) -> dict[str, Any] | None:
        answer = ask(self.dashboard, "GET", "/api/serve/applications/", seconds=30)
        if answer is None or answer.status != 200:
            return None
        status: dict[str, Any] = answer.json
        now = {
            name: [
                application["status"],
                {
                    deployment: [replica["state"] for replica in one["replicas"]]
                    for deployment, one in application["deployments"].items()
                },
            ]
            for name, application in (status.get("applications") or {}).items()
        }
        if now and (not self.log or self.log[-1]["is"] != now):
            self.log.append({"at": time.time(), "is": now})
        return status


def _reasons(application: Mapping[str, Any]) -> str:
    words = [application.get("message", "")]
    words += [f"{name}: {one.get('message', '')}" for name, one in application["deployments"].items()]
    return json.dumps([word for word in words if word])[-4000:]
