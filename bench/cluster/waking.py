"""Time from a request to a sleeping model to the first token, compared with a wake by hand

The service woken by hand is the RayService that Daybreak creates for the tiny sample, under another name. It
has the same image, Serve configuration and KubeRay, and no part of Daybreak in between. Its replicas use
Ray's own class instead of Daybreak's. Its PATH leads to Ray's own `ray`, without the shortcuts of Daybreak's
images. To wake it, a user sets `min_replicas` in `serveConfigV2` and sends the request to Serve's proxy on
the Ray head. There the request waits for a replica. A third way, also by hand, raises `minReplicas` of the
running RayCluster's worker group as well, to show the gain of that change alone. Both Ray heads run all the
time; only one model is awake at a time. The order of the ways rotates.

Each run also measures the seconds of KubeRay's init container, and the seconds until the RayService's status
reported the model as healthy. That is how long a user who watches KubeRay would wait. It also measures how
soon after falling asleep the worker pod was gone.

The measurement needs the embedded cluster with Daybreak installed (`make up`), and removes the sample while
it runs.
"""

import argparse
import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from bench import report
from bench.ready import is_ready
from cluster import paths
from cluster.tools.report import Report
from daybreak.api.common import names
from quickstart import install
from tests.api.admin import JSON_PATCH, Admin, eventually

ROUNDS = 3
PATIENCE_SECONDS = 900.0
LOOK_SECONDS = 0.5
MINE, HAND = "bench-mine", "bench-hand"
WAYS = ("daybreak", "hand", "hand_with_workers")
HEAD_PORT = 8000
WORKERS = "ray.io/node-type=worker"
LOOK_BACK_SECONDS = 35.0
PATH = "/opt/ray/bin:/usr/local/bin:/usr/bin:/bin"
"""PATH without the `ray` of Daybreak's images."""

GOALS: dict[str, report.Goal] = {"ratio": {"max": 0.5}}


def main(rounds: int = ROUNDS) -> None:
    """Measure and write `bench/results/waking.json`."""
    admin = Admin(paths.KUBECONFIG, install.SAMPLE_NAMESPACE)
    progress = Report()
    runs: list[dict[str, Any]] = []
    with room(admin), _mine(admin, progress) as mine, _hand(admin, progress) as hand:
        for number in range(rounds):
            for way in WAYS[number % 3 :] + WAYS[: number % 3]:
                run = mine.run() if way == "daybreak" else hand.run(workers=way == "hand_with_workers")
                runs.append({"way": way, **run})
                progress.write(f"round {number + 1}: {runs[-1]}")
    report.write(
        "waking",
        f"python -m bench.cluster.waking --rounds {rounds}",
        measures=_measures(runs),
        goals=GOALS,
        runs=runs,
        notes="Medians of the time from a request at zero workers to the first token. The ratio is "
        "Daybreak's median divided by that of a manual wake (min_replicas is set, and the request goes "
        "directly to Serve).",
    )


def _measures(runs: list[dict[str, Any]]) -> dict[str, float]:
    def median(way: str, measure: str) -> float:
        return report.median([run[measure] for run in runs if run["way"] == way])

    first = {way: median(way, "first_token_seconds") for way in WAYS}
    return {
        "ratio": first["daybreak"] / first["hand"],
        **{f"{way}_seconds": seconds for way, seconds in first.items()},
        "gain_of_workers_at_once_seconds": first["hand"] - first["hand_with_workers"],
        "gain_in_the_init_container_seconds": median("hand", "init_seconds")
        - median("daybreak", "init_seconds"),
        "gain_over_kuberays_status_seconds": report.median(
            [run["healthy_seconds"] - run["first_token_seconds"] for run in runs if run["way"] != "daybreak"]
        ),
        **{f"{way}_release_seconds": median(way, "release_seconds") for way in ("daybreak", "hand")},
    }


@dataclass(frozen=True)
class _Mine:
    """The LLMService, which is asleep between two runs."""

    admin: Admin
    model: str
    address: str

    def run(self) -> dict[str, Any]:
        """Wake the service with a request, and wait until it sleeps again."""
        seconds = _first_token(self.address, 80, self.model, time.monotonic())
        eventually("awake", lambda: self._status().get("phase") == "Awake", seconds=60)
        wake, init = self._status()["gate"]["models"][0]["wake"], _init_seconds(self.admin, MINE)
        release = self.rest()
        return {
            "first_token_seconds": round(seconds, 2),
            "init_seconds": init,
            "release_seconds": round(release, 2),
            "phases": wake["phases"],
        }

    def rest(self) -> float:
        """Wait until the service sleeps and its worker is gone, and return the seconds between the two."""
        eventually("asleep", lambda: self._status().get("sleepDepth"), seconds=PATIENCE_SECONDS)
        return _until_gone(self.admin, MINE)

    def _status(self) -> Any:
        return self.admin.get("LLMService", MINE).get("status") or {}


@dataclass(frozen=True)
class _Hand:
    """The RayService without Daybreak, which has zero replicas between two runs."""

    admin: Admin
    model: str
    awake: str
    """`serveConfigV2` with one replica."""
    asleep: str
    """`serveConfigV2` without replicas."""

    def run(self, *, workers: bool) -> dict[str, Any]:
        """Wake the service by hand, send a request, and scale it to zero again.

        Args:
            workers: True to raise the worker group of the running RayCluster as well.
        """
        with ThreadPoolExecutor(1) as pool:
            began = time.monotonic()
            self._configure(self.awake)
            if workers:
                self._bound(1)
            requested: Future[float] = pool.submit(_first_token, self._head(), HEAD_PORT, self.model, began)
            eventually("healthy", self._healthy, seconds=PATIENCE_SECONDS, pause=LOOK_SECONDS)
            healthy = time.monotonic() - began
            seconds = requested.result()
        return {
            "first_token_seconds": round(seconds, 2),
            "init_seconds": _init_seconds(self.admin, HAND),
            "healthy_seconds": round(healthy, 2),
            "release_seconds": round(self.rest(), 2),
        }

    def rest(self) -> float:
        """Scale to zero, and return the seconds until the worker is gone."""
        # Serve counts the requests of its look-back period, and would start the replica again for them.
        time.sleep(LOOK_BACK_SECONDS)
        self._configure(self.asleep)
        self._bound(0)
        return _until_gone(self.admin, HAND)

    def _configure(self, text: str) -> None:
        self.admin.merge("RayService", HAND, {"spec": {"serveConfigV2": text}})

    def _bound(self, fewest: int) -> None:
        cluster = self._active()["rayClusterName"]
        change = {"op": "replace", "path": "/spec/workerGroupSpecs/0/minReplicas", "value": fewest}
        self.admin.request("PATCH", self.admin.path("RayCluster", cluster), [change], JSON_PATCH)

    def _active(self) -> Any:
        return (self.admin.get("RayService", HAND).get("status") or {}).get("activeServiceStatus") or {}

    def _head(self) -> str:
        cluster = self._active()["rayClusterName"]
        heads = self.admin.list("Pod", labelSelector=f"ray.io/cluster={cluster},ray.io/node-type=head")
        address: str = heads[0]["status"]["podIP"]
        return address

    def _healthy(self) -> bool:
        """Return True if KubeRay reports that the model runs.

        At zero replicas, Serve reports the model as healthy too.
        """
        cluster = self._active().get("rayClusterName")
        pods = self.admin.list("Pod", labelSelector=f"ray.io/cluster={cluster},{WORKERS}")
        statuses = [
            deployment["status"]
            for application in (self._active().get("applicationStatuses") or {}).values()
            for name, deployment in (application.get("serveDeploymentStatuses") or {}).items()
            if name.startswith("LLMServer")
        ]
        return any(is_ready(pod) for pod in pods) and statuses == ["HEALTHY"]


def with_rays_class(text: str) -> str:
    """Return the configuration with Ray's own class of replicas."""
    document = yaml.safe_load(text)
    for application in document["applications"]:
        for config in application["args"]["llm_configs"]:
            config.pop("server_cls", None)
    return yaml.safe_dump(document, sort_keys=False)


def sample_manifest() -> dict[str, Any]:
    """Return the manifest of the tiny sample."""
    sample: dict[str, Any] = yaml.safe_load(Path(install.SAMPLE).read_text())
    return sample


@contextmanager
def room(admin: Admin) -> Iterator[None]:
    """Remove the sample of `make up`: the node has capacity for two Ray heads and one worker."""
    sample = sample_manifest()
    name = sample["metadata"]["name"]
    there = admin.get("LLMService", name) is not None
    delete(admin, "LLMService", name)
    selector = names.owner_selector(name)
    eventually("its pods are gone", lambda: not admin.list("Pod", labelSelector=selector))
    try:
        yield
    finally:
        if there:
            admin.create(sample)


@contextmanager
def _mine(admin: Admin, progress: Report) -> Iterator[_Mine]:
    manifest = {**sample_manifest(), "metadata": {"name": MINE}}
    try:
        with progress.step("an LLMService that is awake"):
            admin.create(manifest)
            eventually(
                "Ready", lambda: is_ready(admin.get("LLMService", MINE)), seconds=PATIENCE_SECONDS, pause=1
            )
        address = admin.get("Service", MINE)["spec"]["clusterIP"]
        yield _Mine(admin, manifest["spec"]["models"][0]["name"], address)
    finally:
        delete(admin, "LLMService", MINE)


@contextmanager
def _hand(admin: Admin, progress: Report) -> Iterator[_Hand]:
    """Run the service as a hand-managed RayService, and put the LLMService to sleep on entry."""

    def spec() -> Any:
        text = json.dumps(admin.get("RayService", MINE)["spec"])
        return json.loads(text.replace(MINE, HAND))

    awake = spec()
    with progress.step("put the LLMService to sleep"):
        admin.merge("LLMService", MINE, {"spec": {"sleep": {"afterIdle": "5s", "depth": "Workers"}}})
        eventually("asleep", lambda: admin.get("LLMService", MINE)["status"].get("sleepDepth"), seconds=300)
        eventually("built for it", lambda: spec()["serveConfigV2"] != awake["serveConfigV2"], seconds=60)
        _until_gone(admin, MINE)
    asleep = with_rays_class(spec()["serveConfigV2"])
    awake["serveConfigV2"] = with_rays_class(awake["serveConfigV2"])
    (group,) = awake["rayClusterConfig"]["workerGroupSpecs"]
    group["minReplicas"] = 0
    for part in (awake["rayClusterConfig"]["headGroupSpec"], group):
        part["template"]["spec"]["containers"][0]["env"].append({"name": "PATH", "value": PATH})
    account = awake["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"]
    model = yaml.safe_load(awake["serveConfigV2"])["applications"][0]["args"]["llm_configs"][0]
    hand = _Hand(admin, model["model_loading_config"]["model_id"], awake["serveConfigV2"], asleep)
    try:
        with progress.step("the same RayService by hand"):
            admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}})
            admin.create(
                {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": HAND}, "spec": awake}
            )
            eventually("healthy", hand._healthy, seconds=PATIENCE_SECONDS, pause=1)
        with progress.step("bring it to zero by hand"):
            hand.rest()
        yield hand
    finally:
        delete(admin, "RayService", HAND)
        delete(admin, "ServiceAccount", account)


def _first_token(address: str, port: int, model: str, began: float) -> float:
    """Return the seconds from `began` to the first streamed token of one request, sent once."""
    connection = http.client.HTTPConnection(address, port, timeout=PATIENCE_SECONDS)
    body = {"model": model, "prompt": "Good morning", "max_tokens": 1, "stream": True}
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        line = answer.readline()
        if answer.status != 200 or not line.startswith(b"data: {"):
            raise RuntimeError(f"no token: {answer.status} {line!r}")
        return time.monotonic() - began
    finally:
        connection.close()


def _until_gone(admin: Admin, name: str) -> float:
    """Return the seconds until no worker pod exists."""
    began = time.monotonic()
    eventually(
        "no worker",
        lambda: not any(_is_of(pod, name) for pod in admin.list("Pod", labelSelector=WORKERS)),
        seconds=PATIENCE_SECONDS,
    )
    return time.monotonic() - began


def _init_seconds(admin: Admin, name: str) -> int:
    """Return the seconds of the current worker's init container, which waits for the GCS."""
    (pod,) = (pod for pod in admin.list("Pod", labelSelector=WORKERS) if _is_of(pod, name))
    (ended,) = (each["state"]["terminated"] for each in pod["status"]["initContainerStatuses"])
    took = datetime.fromisoformat(ended["finishedAt"]) - datetime.fromisoformat(ended["startedAt"])
    return round(took.total_seconds())


def _is_of(pod: Any, name: str) -> bool:
    return str(pod["metadata"]["labels"]["ray.io/cluster"]).startswith(name)


def delete(admin: Admin, kind: str, name: str) -> None:
    """Delete an object if it exists, and wait until it is gone."""
    if admin.get(kind, name) is not None:
        admin.delete(kind, name)
    eventually(f"{kind} {name} gone", lambda: admin.get(kind, name) is None, seconds=300)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    main(**vars(parser.parse_args()))
