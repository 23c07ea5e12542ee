"""Exactly as many GPUs as one service needs: changes are never stuck, and several services take turns.

Played besides what `conftest.py` names: Ray's autoscaler, which takes pods of a group that is to have none.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import ControlPlane
from daybreak.api.common import names
from daybreak.scheduling.turns import PATIENCE
from tests.api.admin import Admin, Refused, eventually
from tests.api.batches import NIGHT
from tests.api.operator_process import OperatorProcess, played_operator
from tests.api.sleeper import GATEWAY, LONG_IDLE, write_whole
from tests.gpu.looks import TOLERATED, overbooked, placed, pods, service, small
from tests.gpu.nodes import Nodes, h100

pytestmark = [pytest.mark.xdist_group("gpu"), pytest.mark.usefixtures("operator")]
NAME = "exact"
OLD, NEW = "ray:old", "ray:new"


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that says what gateways say; see `tests/api/played_operator.py`."""
    return tmp_path_factory.mktemp("traffic")


@pytest.fixture(scope="module")
def operator(
    plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory, answers: Path, traffic: Path
) -> Iterator[OperatorProcess]:
    """The operator, with gateways."""
    folder = tmp_path_factory.mktemp("operator")
    settings = {**GATEWAY, "PLAYED_TRAFFIC": str(traffic)}
    with played_operator(plane.kubeconfig, folder, answers, **settings) as process:
        yield process


class Exact:
    """A service whose one model fits on the nodes of these tests alone, and takes them whole."""

    def __init__(self, admin: Admin, answers: Path, traffic: Path, name: str = NAME) -> None:
        self.admin = admin
        self.name = name
        self._answer = answers / f"{admin.namespace}.{name}"
        self._traffic = traffic / f"{admin.namespace}.{name}"

    def create(self, depth: str) -> None:
        """Make it, and bring it up."""
        self.make({"afterIdle": "1s", "depth": depth})
        self.opens()

    def make(self, sleep: dict[str, str], **model: Any) -> None:
        """Make it."""
        manifest = service(self.name, small(nodeSelector={NAME: "yes"}, tolerations=TOLERATED) | model)
        manifest["spec"] |= {"sleep": sleep, "runtime": {"image": OLD}}
        write_whole(self._answer, "")
        self.gateways()
        self.admin.create(manifest)

    def opens(self) -> None:
        """Requests are let through."""
        self.reaches("open", lambda status: _gate(status)["state"] == "Open")

    def gateways(self, **said: Any) -> None:
        """What gateways say from now on; the operator looks then, as when one has told it something."""
        write_whole(self._traffic, json.dumps(said))
        if self.admin.get("LLMService", self.name) is not None:
            self.admin.merge(
                "LLMService", self.name, {"metadata": {"annotations": {"told": json.dumps(said)}}}
            )

    def silent(self) -> None:
        """The model does not answer."""
        self._answer.unlink()

    def answers(self) -> None:
        """The model answers, where its pod runs."""
        write_whole(self._answer, "")

    def changes(self) -> None:
        """A person changes what needs new pods."""
        changed = self.admin.merge("LLMService", self.name, {"spec": {"runtime": {"image": NEW}}})
        generation = changed["metadata"]["generation"]
        self.reaches("looked at", lambda status: status.get("observedGeneration") == generation)

    def sleeps(self, depth: str) -> None:
        """Nobody asks any more."""
        self.gateways(idle=LONG_IDLE)
        self.reaches("asleep", lambda status: status.get("asleep") == depth)
        self.eventually("no worker pod", lambda: not pods(self.admin, self.name))

    def wakes(self) -> None:
        """Somebody asks, and is answered by what the spec says now."""
        self.gateways(held=1)
        self.reaches("open", lambda status: _gate(status)["state"] == "Open")
        self.gateways()

    def reaches(self, what: str, look: Callable[[dict[str, Any]], object]) -> None:
        """Wait until the status says something."""

        def there() -> object:
            status = self.admin.get("LLMService", self.name).get("status") or {}
            return "gate" in status and look(status)

        try:
            self.eventually(what, there)
        except AssertionError as error:
            status = self.admin.get("LLMService", self.name)["status"]
            raise AssertionError(f"{error}; its status: {json.dumps(status)}") from None

    def eventually(self, what: str, look: Callable[[], object]) -> None:
        """Wait for something, while Ray's autoscaler does its part for every service."""

        def there() -> object:
            self._scale_down()
            return look()

        eventually(what, there)

    @property
    def is_open(self) -> bool:
        """Whether requests are let through."""
        status = self.admin.get("LLMService", self.name).get("status") or {}
        return "gate" in status and _gate(status)["state"] == "Open"

    def _scale_down(self) -> None:
        # Pods before clusters: one that is listed was made before its cluster was looked at, so not by a wake
        # that came in between. KubeRay would wait minutes for a pod that goes before it has seen it
        # (`scale_expectations.go`: for 30 s, and then for the next event).
        found = [pod for pod in self.admin.list("Pod") if "ray.io/group" in pod["metadata"].get("labels", {})]
        none = {
            (cluster["metadata"]["name"], group["groupName"])
            for cluster in self.admin.list("RayCluster")
            for group in cluster["spec"].get("workerGroupSpecs", ())
            if group["maxReplicas"] == 0
        }
        for pod in found:
            labels = pod["metadata"]["labels"]
            if (labels[names.RAY_CLUSTER_LABEL], labels["ray.io/group"]) in none:
                with contextlib.suppress(Refused):
                    self.admin.delete("Pod", pod["metadata"]["name"])


def _gate(status: dict[str, Any]) -> dict[str, Any]:
    gate: dict[str, Any] = status["gate"]["models"][0]
    return gate


@pytest.fixture
def exact(admin: Admin, nodes: Nodes, serve_by_pods: None, answers: Path, traffic: Path) -> Exact:
    """One GPU, and who needs it."""
    nodes.add(h100("h100-exact", 1, **{NAME: "yes"}))

    return Exact(admin, answers, traffic)


@pytest.fixture
def other(exact: Exact, answers: Path, traffic: Path) -> Exact:
    """A second service that needs the same GPU."""
    return Exact(exact.admin, answers, traffic, "other")


@pytest.mark.parametrize("depth", ["Workers", "Cluster"])
@pytest.mark.parametrize("moment", ["asleep", "waking", "updating"])
def test_a_change_with_no_gpu_to_spare(exact: Exact, moment: str, depth: str) -> None:
    exact.create(depth)
    [before] = placed(exact.admin, NAME, 1)
    assert _image(before) == OLD
    if moment == "asleep":
        exact.sleeps(depth)
        exact.changes()
    elif moment == "waking":
        exact.sleeps(depth)
        exact.silent()
        exact.gateways(held=1)
        exact.reaches("waking", lambda status: _gate(status)["phase"] == "Waking")
        placed(exact.admin, NAME, 1)
        exact.changes()
        exact.answers()
    else:
        exact.admin.merge("LLMService", NAME, {"spec": {"rollout": {"strategy": "BlueGreen"}}})
        exact.changes()
        exact.reaches("updating", lambda status: status["phase"] == "Updating")
        exact.sleeps(depth)
    exact.wakes()
    exact.eventually("the new one runs", lambda: [_image(pod) for pod in pods(exact.admin, NAME)] == [NEW])
    [worker] = placed(exact.admin, NAME, 1)
    assert _image(worker) == NEW
    exact.reaches("open", lambda status: _gate(status)["state"] == "Open")
    assert overbooked(exact.admin) == []


PATIENT = {"afterIdle": "1h", "minAwake": "1s"}
"""Nobody falls asleep by the clock in the tests that follow."""


def test_an_idle_service_gives_its_gpu_to_one_that_is_asked(exact: Exact, other: Exact) -> None:
    exact.make(PATIENT)
    exact.opens()
    other.make(PATIENT)
    other.gateways(held=1)
    other.eventually("the scheduler has no room", lambda: _waits(other))
    assert exact.is_open, "one that is asked keeps its GPU"
    exact.gateways(idle=60)
    other.opens()
    exact.reaches("asleep", lambda status: status.get("asleep") == "Workers")
    # And back.
    exact.gateways(held=1)
    other.gateways(idle=60)
    exact.opens()
    other.reaches("asleep", lambda status: status.get("asleep") == "Workers")
    assert overbooked(exact.admin) == []


def test_two_services_that_are_always_asked_take_turns(exact: Exact, other: Exact) -> None:
    both = (exact, other)
    for each in both:
        each.make(PATIENT | {"yield": "Turn"})
        each.gateways(held=1)
    exact.eventually("one is up", lambda: any(each.is_open for each in both))
    first, second = both if exact.is_open else (other, exact)
    for up, down in ((second, first), (first, second)):
        up.opens()
        down.reaches("in the queue", lambda status: _gate(status).get("after"))
        assert not down.is_open
    assert overbooked(exact.admin) == []


def test_a_service_that_never_gives_way_keeps_its_gpu(exact: Exact, other: Exact) -> None:
    exact.make(PATIENT | {"yield": "Never"})
    exact.opens()
    exact.gateways(idle=60)
    other.make(PATIENT)
    other.gateways(held=1)
    other.eventually("the scheduler has no room", lambda: _waits(other))
    time.sleep(3 * PATIENCE.total_seconds())
    assert exact.is_open


def test_two_services_do_not_wait_for_each_other_with_half_of_what_each_needs(
    exact: Exact, other: Exact, nodes: Nodes
) -> None:
    nodes.add(h100("h100-exact-2", 1, **{NAME: "yes"}))
    both = (exact, other)
    for each in both:
        each.make(PATIENT, parallelism={"tensor": 1, "pipeline": 2})
        each.gateways(held=1)
    exact.eventually("one is up", lambda: any(each.is_open for each in both))
    first, second = both if exact.is_open else (other, exact)
    placed(first.admin, first.name, 2)
    first.gateways(idle=60)
    second.opens()
    placed(second.admin, second.name, 2)
    assert overbooked(exact.admin) == []


@pytest.fixture
def night(exact: Exact) -> Iterator[str]:
    """A batch that needs the same GPU. Returns what stands for it in labels."""
    model = small(nodeSelector={NAME: "yes"}, tolerations=TOLERATED)
    batch = NIGHT.manifest(model=model, minRun="1s")
    exact.admin.create(batch)
    yield names.of_owner("LLMBatch", "night")
    exact.admin.delete("LLMBatch", "night")


def test_a_batch_gives_its_gpu_to_a_service_that_wakes_and_goes_on_afterwards(
    exact: Exact, night: str
) -> None:
    placed(exact.admin, night, 1)
    before = exact.admin.get("RayJob", "night")["metadata"]["uid"]
    exact.make(PATIENT)
    exact.gateways(held=1)
    exact.opens()
    placed(exact.admin, exact.name, 1)
    told = eventually("it is told", lambda: _events(exact.admin, "night"))
    assert "WaitingForAccelerators" in told
    # It stands in the queue again, and takes nothing from who is awake, idle or not.
    exact.gateways(idle=60)
    exact.eventually("a new job", lambda: _new_job(exact.admin, before))
    time.sleep(2 * PATIENCE.total_seconds())
    assert exact.is_open
    exact.admin.merge("LLMService", exact.name, {"spec": {"state": "Asleep"}})
    exact.eventually("it runs again", lambda: [each for each in pods(exact.admin, night) if _runs(each)])
    assert overbooked(exact.admin) == []


def _new_job(admin: Admin, before: str) -> bool:
    job = admin.get("RayJob", "night")
    return job is not None and job["metadata"]["uid"] != before


def _events(admin: Admin, name: str) -> set[str]:
    return {each["reason"] for each in admin.list("Event") if each["regarding"]["name"] == name}


def _runs(pod: Any) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _waits(service: Exact) -> bool:
    return any(
        each.get("reason") == "Unschedulable"
        for pod in pods(service.admin, service.name)
        for each in pod["status"].get("conditions", [])
    )


def _image(pod: Any) -> str:
    return str(pod["spec"]["containers"][0]["image"])
