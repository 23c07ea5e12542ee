"""A change of a service with exactly as many GPUs as it needs: it is never stuck between two Ray clusters.

Played besides what `conftest.py` names: Ray's autoscaler, which takes pods of a group that is to have none.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import ControlPlane
from daybreak.api.common import names
from tests.api.admin import Admin, Refused, eventually
from tests.api.operator_process import OperatorProcess, played_operator
from tests.api.sleeper import GATEWAY, LONG_IDLE, write_whole
from tests.gpu.looks import TOLERATED, overbooked, placed, pods, service, small
from tests.gpu.nodes import Nodes, h100
from tests.gpu.played_serve import PlayedServe

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
    """A service whose one model fits on one node alone, and takes it whole."""

    def __init__(self, admin: Admin, answers: Path, traffic: Path) -> None:
        self.admin = admin
        self._answer = answers / f"{admin.namespace}.{NAME}"
        self._traffic = traffic / f"{admin.namespace}.{NAME}"

    def create(self, depth: str) -> None:
        """Make it, and bring it up."""
        manifest = service(NAME, small(nodeSelector={NAME: "yes"}, tolerations=TOLERATED))
        manifest["spec"] |= {"sleep": {"afterIdle": "1s", "depth": depth}, "runtime": {"image": OLD}}
        write_whole(self._answer, "")
        self.gateways()
        self.admin.create(manifest)
        self.reaches("open", lambda status: _gate(status)["state"] == "Open")

    def gateways(self, **said: Any) -> None:
        """What gateways say from now on."""
        write_whole(self._traffic, json.dumps(said))

    def silent(self) -> None:
        """The model does not answer."""
        self._answer.unlink()

    def answers(self) -> None:
        """The model answers, where its pod runs."""
        write_whole(self._answer, "")

    def changes(self) -> None:
        """A person changes what needs new pods."""
        changed = self.admin.merge("LLMService", NAME, {"spec": {"runtime": {"image": NEW}}})
        generation = changed["metadata"]["generation"]
        self.reaches("looked at", lambda status: status.get("observedGeneration") == generation)

    def sleeps(self, depth: str) -> None:
        """Nobody asks any more."""
        self.gateways(idle=LONG_IDLE)
        self.reaches("asleep", lambda status: status.get("asleep") == depth)
        self.eventually("no worker pod", lambda: not pods(self.admin, NAME))

    def wakes(self) -> None:
        """Somebody asks, and is answered by what the spec says now."""
        self.gateways(held=1)
        self.reaches("open", lambda status: _gate(status)["state"] == "Open")
        self.gateways()

    def reaches(self, what: str, look: Callable[[dict[str, Any]], object]) -> None:
        """Wait until the status says something."""

        def there() -> object:
            status = self.admin.get("LLMService", NAME).get("status") or {}
            return "gate" in status and look(status)

        try:
            self.eventually(what, there)
        except AssertionError as error:
            status = self.admin.get("LLMService", NAME)["status"]
            raise AssertionError(f"{error}; its status: {json.dumps(status)}") from None

    def eventually(self, what: str, look: Callable[[], object]) -> None:
        """Wait for something, while Ray's autoscaler does its part."""

        def there() -> object:
            self._scale_down()
            return look()

        eventually(what, there)

    def _scale_down(self) -> None:
        for cluster in self.admin.list("RayCluster"):
            none = [
                group["groupName"]
                for group in cluster["spec"].get("workerGroupSpecs", ())
                if group["maxReplicas"] == 0
            ]
            for pod in pods(self.admin, NAME):
                labels = pod["metadata"]["labels"]
                here = labels[names.RAY_CLUSTER_LABEL] == cluster["metadata"]["name"]
                if here and labels["ray.io/group"] in none:
                    with contextlib.suppress(Refused):
                        self.admin.delete("Pod", pod["metadata"]["name"])


def _gate(status: dict[str, Any]) -> dict[str, Any]:
    gate: dict[str, Any] = status["gate"]["models"][0]
    return gate


@pytest.fixture
def exact(
    admin: Admin, nodes: Nodes, serve: PlayedServe, everywhere: Admin, answers: Path, traffic: Path
) -> Iterator[Exact]:
    """One GPU, and who needs it. Serve says of a model what its pods say."""
    nodes.add(h100("h100-exact", 1, **{NAME: "yes"}))

    def running(head: str) -> set[str]:
        service, namespace = head.split(".")[:2]
        cluster = service.removesuffix("-head-svc")
        found = everywhere.within(namespace).list("Pod", labelSelector=f"{names.RAY_CLUSTER_LABEL}={cluster}")
        return {
            pod["metadata"]["labels"]["ray.io/group"]
            for pod in found
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        }

    serve.running = running
    yield Exact(admin, answers, traffic)
    serve.running = None


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
        exact.changes()
        exact.reaches("updating", lambda status: status["phase"] == "Updating")
        exact.sleeps(depth)
    exact.wakes()
    exact.eventually("the new one runs", lambda: [_image(pod) for pod in pods(exact.admin, NAME)] == [NEW])
    [worker] = placed(exact.admin, NAME, 1)
    assert _image(worker) == NEW
    exact.reaches("open", lambda status: _gate(status)["state"] == "Open")
    assert overbooked(exact.admin) == []


def _image(pod: Any) -> str:
    return str(pod["spec"]["containers"][0]["image"])
