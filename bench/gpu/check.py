"""Steps of the check: each start, the answers, and the load on every path to the model."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.gpu import cores, machine, phases
from bench.gpu.ask import ask
from bench.gpu.checks import checks, first_token, misplaced
from bench.gpu.clients import Lengths
from bench.gpu.engine import Engine
from bench.gpu.load import Window, load, words
from bench.gpu.processes import Failed, Process, environment, process, until
from bench.gpu.ray_cluster import HOST, Ports, RayCluster
from bench.gpu.render import REPOSITORY, Rendered, Wish, image_environment, render
from bench.gpu.result import Result

_FREE_SECONDS = 90.0
_STOP_SECONDS = 180.0
_REST_SECONDS = 2.0
"""Seconds between two loads, in which the engine drops the requests of disconnected clients."""
_REPORT_SECONDS = 10.0
"""Seconds between two reports of running requests to Serve's autoscaler."""
_GATEWAY_SECONDS = 60.0
_DIRECT_SECONDS = 10.0


@dataclass(frozen=True)
class Options:
    """Options of a check."""

    wish: Wish
    image: str
    """Folder in `images/` whose packages run."""
    steps: Sequence[str]
    clients: Sequence[int]
    window: Window
    lengths: Lengths
    gateway: bool
    port: int
    start_seconds: float
    folder: Path
    head_python: str = ""
    """Python of the head, with the packages of `images/ray-cpu`. Defaults to the Python of the worker."""


@dataclass(frozen=True)
class _Way:
    """Path to the model."""

    name: str
    address: tuple[str, int]
    more: tuple[Process, ...] = ()
    """Processes on the path that are neither the engine's nor Ray's."""


class Check:
    """One check; `run` executes all of its steps."""

    def __init__(self, options: Options, result: Result) -> None:
        self._options = options
        self._result = result
        self._ports = Ports(options.port)
        self._cache = options.folder / "cache"
        self._homes = 0
        self._rendered = self._render(self._cache)
        self._cluster: RayCluster | None = None
        self._awake = False
        self._words = words(options.wish.folder / "tokenizer.json")

    def run(self) -> None:
        """Run all steps, and write the result after each; a failed step does not stop the others."""
        self._result.write(
            changes=list(self._rendered.changes),
            engine_args=self._rendered.engine_args,
            worker=list(self._rendered.worker.ray_start),
        )
        try:
            for step in self._options.steps:
                began = time.monotonic()
                try:
                    STEPS[step](self)
                except Failed as error:
                    self._result.failures.append(f"{step}: {error}")
                    self._write(f"{step} FAILED: {error}")
                    self._stop_cluster()
                self._write(f"{step}: {time.monotonic() - began:.0f} s")
                self._result.write()
            self._result.write(complete=not self._result.failures)
        finally:
            self._stop_cluster()

    def serve(self) -> None:
        """Start a new Ray cluster with head, worker and configuration, then run the load on every path."""
        self._stop_cluster()
        self._until_free()
        more, apart = self._variables(self._cache), self._options.head_python
        head_more = self._variables(self._cache, "ray-cpu", Path(apart).parent.parent) if apart else {}
        cluster = self._cluster = RayCluster(
            self._ports, self._options.folder, more, head_python=apart, head_more=head_more
        )
        head = cluster.start_head(self._rendered.head)
        worker = cluster.start_worker(self._rendered.worker)
        self._start("serve", cluster, {"head_seconds": round(head, 1), "worker_seconds": round(worker, 1)})
        self._placement(cluster)
        self._ways_through_ray("serve")

    def sleep(self) -> None:
        """Scale to zero like the operator: remove the replica, then the worker."""
        if self._cluster is None or not self._awake:
            return
        asleep = self._render(self._cache, asleep=True)
        # A model that falls asleep has been idle for longer. Serve's autoscaler would start a replica again
        # for requests that have just ended, on the worker, which stays until no replica is left.
        time.sleep(asleep.look_back_seconds + _REPORT_SECONDS)
        self._cluster.deploy(asleep)
        self._awake = False
        self._cluster.wait_replicas(str(asleep.deployment["name"]), 0, _STOP_SECONDS)
        self._cluster.stop_worker()
        self._until_free()

    def wake(self) -> None:
        """Start a new worker for the running head with the existing cache, then load every path."""
        if self._cluster is None:
            raise Failed("there is no Ray cluster that could wake")
        self.sleep()
        self._cluster.more = self._variables(self._cache)
        began = time.time()
        worker = self._cluster.start_worker(self._rendered.worker)
        self._start("wake", self._cluster, {"worker_seconds": round(worker, 1)}, began)
        self._ways_through_ray("wake")

    def vllm(self, name: str = "vllm", cache: Path | None = None, loads: bool = True) -> None:
        """Start `vllm serve` with the same arguments, then run the same load."""
        self.sleep()
        self._until_free()
        rendered = self._rendered if cache is None else self._render(cache)
        more = self._variables(cache or self._cache)
        engine = Engine(rendered, self._ports.engine, self._options.folder, more, name)
        try:
            seconds = engine.wait(self._options.start_seconds)
            first = first_token(engine.address, rendered.model)
            self._result.starts[name] = {
                "ready_seconds": round(seconds, 1),
                "first_answer_seconds": round(seconds + first, 1),
                "marks": phases.marks([engine.log], engine.started),
                "said_seconds": phases.read_phases([engine.log], engine.started),
            }
            self._write(f"{name}: {self._result.starts[name]}")
            if loads:
                self._result.checks[name] = checks(engine.address, rendered.model)
                way = _Way("vllm", engine.address)
                self._load_all([way], self._options.clients, engine.processes, name)
        finally:
            engine.stop()
            self._until_free()

    def vllm_cold(self) -> None:
        """Start `vllm serve` with an empty cache, only to measure its start."""
        self.vllm("vllm-cold", self._options.folder / "cache-of-vllm", loads=False)

    def _start(
        self, name: str, cluster: RayCluster, more: dict[str, Any], began: float | None = None
    ) -> None:
        began = began or time.time()
        cluster.log.clear()
        cluster.deploy(self._rendered)
        cluster.wait_replicas(str(self._rendered.deployment["name"]), 1, self._options.start_seconds)
        cluster.wait_running(self._options.start_seconds)
        self._awake = True
        running = time.time() - began
        first = first_token((HOST, self._ports.serve), self._rendered.model)
        logs = sorted(cluster.logs.rglob("*.log")) + sorted(cluster.logs.glob("worker-*"))
        self._result.starts[name] = {
            **more,
            "running_seconds": round(running, 1),
            "first_answer_seconds": round(time.time() - began, 1),
            "first_token_after_running_seconds": round(first, 2),
            "marks": phases.marks(logs, began),
            "said_seconds": phases.read_phases(logs, began),
            "serve_status": [
                {"at": round(entry["at"] - began, 1), "is": entry["is"]} for entry in cluster.log
            ],
        }
        self._write(f"{name}: {self._result.starts[name]}")
        self._result.write()

    def _placement(self, cluster: RayCluster) -> None:
        """Record whether a replica's bundles are on one node, and as many as the replica has GPUs."""
        groups, tensor = cluster.placement_groups(), self._options.wish.tensor
        self._result.write(placement={"strategy": self._rendered.strategy, "groups": groups})
        if wrong := misplaced(self._rendered.strategy, groups, tensor):
            raise Failed(f"the replica is not placed as it should be: {wrong}; {groups}")

    def _ways_through_ray(self, step: str) -> None:
        cluster = self._cluster
        if cluster is None:
            return
        with ExitStack() as stack:
            ways = [_Way("serve", (HOST, self._ports.serve))]
            direct = (HOST, self._ports.direct(0))
            if self._direct_answers(direct):
                ways.append(_Way("direct", direct))
            if self._options.gateway:
                gates = {"serve": self._ports.gateway, "direct": self._ports.gateway_direct}
                ways += [
                    stack.enter_context(self._gateway(way, gates[way.name], f"{step}-")) for way in list(ways)
                ]
            for way in ways:
                self._result.checks[f"{step}:{way.name}"] = checks(
                    way.address, self._rendered.model, openai_errors=way.name != "serve"
                )
            self._result.write()
            if step == "serve":
                self._load_all(ways, self._options.clients, cluster.processes, step)
            else:
                # Repeat after the other engine, in reverse order, with the lowest number of clients only.
                self._load_all(ways[::-1], self._options.clients[:1], cluster.processes, step)

    def _direct_answers(self, address: tuple[str, int]) -> bool:
        last = time.monotonic() + _DIRECT_SECONDS
        while time.monotonic() < last:
            answer = ask(address, "GET", "/-/healthz", seconds=5)
            if answer is not None and answer.status == 200:
                return True
            time.sleep(0.5)
        self._write(f"the replica does not answer at its direct port {address[1]}")
        return False

    @contextmanager
    def _gateway(self, way: _Way, port: int, prefix: str) -> Iterator[_Way]:
        name = "gateway" if way.name == "serve" else f"gateway_{way.name}"
        folder = self._options.folder / f"{prefix}{name}"
        command = [sys.executable, "-m", "bench.gpu.gateway", "--port", str(port)]
        command += ["--proxy", str(self._ports.serve), "--model", self._rendered.model]
        command += ["--folder", str(folder)]
        if way.name == "direct":
            limit = self._rendered.deployment["max_ongoing_requests"]
            command += ["--replica", str(way.address[1]), "--limit", str(limit)]
        paths = {"PYTHONPATH": ":".join([*sys.path, str(REPOSITORY)])}
        with process(f"{prefix}{name}", command, environment(paths), self._options.folder) as one:

            def ready() -> bool | None:
                answer = ask((HOST, port), "GET", "/v1/models", seconds=5)
                return True if answer is not None and answer.status == 200 else None

            until(f"the gateway before {way.name}", ready, _GATEWAY_SECONDS, one)
            yield _Way(name, (HOST, port), (one,))

    def _load_all(
        self,
        ways: Sequence[_Way],
        numbers: Sequence[int],
        processes: Callable[[], list[psutil.Process]],
        step: str,
    ) -> None:
        for clients in numbers:
            for way in ways:

                def look(way: _Way = way) -> cores.Used:
                    more = [each for one in way.more for each in one.family()]
                    return cores.used([*processes(), *more])

                run: dict[str, Any] = {"step": step, "path": way.name, "clients": clients}
                try:
                    run |= load(
                        way.address,
                        self._rendered.model,
                        self._words,
                        clients,
                        self._options.window,
                        look,
                        self._options.lengths,
                    )
                except Failed as error:
                    run["error"] = str(error)
                    self._result.failures.append(f"{step}, {way.name}, {clients} clients: {error}")
                self._result.runs.append(run)
                self._write(f"{run}")
                self._result.write()
                time.sleep(_REST_SECONDS)

    def _render(self, cache: Path, asleep: bool = False) -> Rendered:
        return render(self._options.wish, port=self._ports.serve, cache=cache, asleep=asleep)

    def _variables(self, cache: Path, image: str = "", prefix: Path | None = None) -> dict[str, str]:
        """Return the variables of an image, with a separate home, because a pod's home is always new."""
        cache.mkdir(parents=True, exist_ok=True)
        self._homes += 1
        home = self._options.folder / f"home-{self._homes}"
        home.mkdir(exist_ok=True)
        found = image_environment(image or self._options.image, prefix or Path(sys.prefix), cache, os.environ)
        return {**found, "HOME": str(home), "HF_HUB_OFFLINE": "1"}

    def _until_free(self) -> None:
        def free() -> bool | None:
            return machine.memory_used_mib() < machine.FREE_MIB or None

        until("GPU memory free", free, _FREE_SECONDS, pause=1.0)

    def _stop_cluster(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None
            self._awake = False

    def _write(self, text: str) -> None:
        print(f"gpu-check {time.strftime('%H:%M:%S')} {text}", flush=True)


STEPS: dict[str, Callable[[Check], None]] = {
    "serve": Check.serve,
    "vllm": Check.vllm,
    "vllm-cold": Check.vllm_cold,
    "wake": Check.wake,
}
