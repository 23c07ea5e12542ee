"""Processes of `bench.ray.direct`: a local Ray cluster, started like its pods, and Daybreak's gateway."""

import copy
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from bench.gpu.ask import ask
from bench.gpu.processes import Process, environment, process, until
from bench.gpu.ray_cluster import HOST, RUNTIME, Ports, RayCluster
from bench.gpu.render import REPOSITORY, Pod, Rendered, Wish, image_environment, render

SAMPLE = "tiny-cpu"
_START_SECONDS = 600.0
_GATEWAY_SECONDS = 60.0
_PORT_SAID = re.compile(r"The replica serves on port (\d+) of its pod")
_STAND_IN = {
    "RAYLLM_VLLM_ENGINE_CLS": "bench.ray.direct_engine.StandIn",
    "PYTHONPATH": f"{RUNTIME}:{REPOSITORY}",
}


@dataclass(frozen=True)
class Way:
    """One path to the replicas."""

    name: str
    address: tuple[str, int]
    more: tuple[Process, ...] = ()
    """Processes on the path that are not Ray's."""


def several(rendered: Rendered, replicas: int, most: int) -> Rendered:
    """Return the service with a number of replicas, on a worker with capacity for `most` of them."""
    config = copy.deepcopy(dict(rendered.config))
    scaling = config["applications"][0]["deployments"][-1]["autoscaling_config"]
    scaling |= {"min_replicas": replicas, "max_replicas": replicas}
    return replace(rendered, config=config, worker=_wide(rendered.worker, most))


def _wide(pod: Pod, most: int) -> Pod:
    """Return a worker with capacity for `most` replicas instead of one."""
    start = []
    for argument in pod.ray_start:
        name, _, value = argument.partition("=")
        if name == "--num-cpus":
            argument = f"{name}={most * int(value)}"
        elif name == "--resources":
            resources = {key: most * amount for key, amount in json.loads(value).items()}
            argument = f"{name}={json.dumps(resources)}"
        start.append(argument)
    return replace(pod, ray_start=tuple(start))


class Stage:
    """Ray cluster with a changing number of replicas."""

    def __init__(self, folder: Path, model: Path, python: Path, first_port: int) -> None:
        self.python = str(python)
        self.ports = Ports(first_port)
        self.folder = folder
        cache = folder / "cache"
        cache.mkdir(exist_ok=True)
        (folder / "home").mkdir(exist_ok=True)
        self.rendered = render(Wish(SAMPLE, model), port=self.ports.serve, cache=cache)
        prefix = python.parent.parent
        self.variables = {
            **image_environment("ray-cpu", prefix, cache, os.environ),
            "HOME": str(folder / "home"),
            "HF_HUB_OFFLINE": "1",
            "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "300",
        }
        self.cluster = RayCluster(self.ports, folder, self.variables, self.python)

    @property
    def limit(self) -> int:
        """Return the maximum number of concurrent requests that a gateway sends to a replica."""
        return int(self.rendered.deployment["max_ongoing_requests"])

    def start(self) -> None:
        """Start Ray's head."""
        self.cluster.start_head(self.rendered.head)

    def stand_ins(self, most: int) -> None:
        """Start the worker of at most `most` replicas with the simulated engine."""
        worker = several(self.rendered, 1, most).worker
        self._start_worker(worker, _STAND_IN)

    def engine(self) -> None:
        """Start the worker of one replica with vLLM."""
        self._start_worker(self.rendered.worker, {})

    def serve(self, replicas: int) -> list[int]:
        """Make Serve run a number of replicas, and return their direct ports."""
        config = several(self.rendered, replicas, replicas)
        self.cluster.deploy(config)
        if replicas:
            # Reports the cause if an application cannot start.
            self.cluster.wait_running(_START_SECONDS)
        self.cluster.wait_replicas(str(self.rendered.deployment["name"]), replicas, _START_SECONDS)
        return self._ports()

    def rest(self) -> None:
        """End the replicas and their worker."""
        self.serve(0)
        self.cluster.stop_worker()

    def stop(self) -> None:
        """End all processes."""
        self.cluster.stop()

    @property
    def proxy(self) -> Way:
        """Return the path through Serve's proxy and the ingress."""
        return Way("today", (HOST, self.ports.serve))

    @contextmanager
    def gateway(self, ports: list[int], name: str) -> Iterator[Way]:
        """Run Daybreak's gateway in front of the replicas' direct ports."""
        port = self.ports.gateway_direct
        command = [sys.executable, "-m", "bench.gpu.gateway", "--port", str(port)]
        command += ["--model", self.rendered.model, "--proxy", str(self.ports.serve)]
        for each in ports:
            command += ["--replica", str(each)]
        command += ["--limit", str(self.limit)]
        command += ["--folder", str(self.folder / f"gateway-{name}")]
        paths = {"PYTHONPATH": ":".join([*sys.path, str(REPOSITORY)])}
        with process(f"gateway-{name}", command, environment(paths), self.folder) as one:

            def ready() -> bool | None:
                answer = ask((HOST, port), "GET", "/v1/models", seconds=5)
                return True if answer is not None and answer.status == 200 else None

            until("the gateway", ready, _GATEWAY_SECONDS, one)
            yield Way("direct", (HOST, port), (one,))

    def processes(self, way: Way) -> list[psutil.Process]:
        """Return Ray's processes and those of the path."""
        return [*self.cluster.processes(), *(each for one in way.more for each in one.family())]

    def _start_worker(self, worker: Pod, more: Mapping[str, str]) -> None:
        self.cluster.start_worker(worker, {**more, "DAYBREAK_HTTP_PORT": "0"})

    def _ports(self) -> list[int]:
        """Return the direct ports of the current replicas."""
        message = {
            int(port)
            for log in (self.cluster.logs / "serve").glob("replica_*.log")
            for port in _PORT_SAID.findall(log.read_text(errors="replace"))
        }
        return [port for port in sorted(message) if _listens(port)]


def _listens(port: int) -> bool:
    answer = ask((HOST, port), "GET", "/-/healthz", seconds=30)
    return answer is not None and answer.status == 200
