"""A cluster for all GPU tests of a worker: everything that places pods is real, only the nodes are fakes.

Real: API server, controller manager, scheduler, KubeRay's operator, Daybreak's operator. Fake: the nodes and
their GPUs. kwok plays their kubelets: it says of every pod that the scheduler gives them that it runs and is
ready, at once, without pulling an image, mounting a volume or starting a process. So no Ray, no Serve and no
vLLM runs here; Serve's words to KubeRay are played (`played_serve.py`), and so is the model's answer to
Daybreak (`tests/api/playing/operator.py`). These tests show which pods are created, where they are placed,
and how the status reports it; `e2e/` shows that such pods serve a model.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import ControlPlane, paths
from daybreak.api.common import names
from daybreak.api.common.unstructured import at
from tests.api.admin import Admin, eventually, own_namespace
from tests.api.conftest import CRDS
from tests.api.fixtures import answers, gated, operator, traffic
from tests.gpu.exact import NAME, Exact
from tests.gpu.looks import everything_gone
from tests.gpu.nodes import LONGEST_BACKOFF, Nodes, h100, standing
from tests.gpu.played_serve import PlayedServe
from tests.kuberay_crds import kuberay_crds
from tests.kuberay_process import kuberay

__all__ = ("answers", "gated", "operator", "traffic")  # fixtures


@pytest.fixture(scope="package")
def serve() -> Iterator[PlayedServe]:
    """Ray Serve, of all Ray clusters."""
    with PlayedServe() as played:
        yield played


@pytest.fixture(scope="package")
def plane(serve: PlayedServe) -> Iterator[ControlPlane]:
    """Yield the cluster, with its permanent nodes.

    Tests that use it share it, so they belong in one of two xdist groups, each of which may have one of its
    own: `gpu-turns`, of workloads that want what others hold, and `gpu`.
    """
    with (
        ControlPlane(
            paths.DAYBREAK / "tests" / f"gpu-{os.getpid()}",
            crds=[CRDS, kuberay_crds()],
            controllers=True,
            scheduler=True,
            longest_backoff=LONGEST_BACKOFF,
            fake_nodes=standing(),
        ) as cluster,
        kuberay(cluster, proxy=serve.proxy),
    ):
        yield cluster


@pytest.fixture(scope="package")
def everywhere(plane: ControlPlane) -> Admin:
    """Return an `Admin`."""
    return Admin(plane.kubeconfig)


@pytest.fixture
def serve_by_pods(serve: PlayedServe, everywhere: Admin) -> Iterator[None]:
    """Ray Serve reports a model as running if its group has its smallest number of pods and all of them run.

    A group whose bounds are 0 runs nothing, even while one pod of a replica with several is still there.
    Without this fixture, Serve reports every model as running.
    """

    def running(head: str) -> set[str]:
        service, namespace = head.split(".")[:2]
        cluster = service.removesuffix("-head-svc")
        hands = everywhere.within(namespace)
        groups = at(hands.get("RayCluster", cluster) or {}, "spec").get("workerGroupSpecs", ())
        found = hands.list("Pod", labelSelector=f"{names.RAY_CLUSTER_LABEL}={cluster}")
        there = [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]
        phases: dict[str, list[str]] = {}
        for pod in there:
            group = pod["metadata"]["labels"]["ray.io/group"]
            phases.setdefault(group, []).append(pod["status"].get("phase", ""))
        # KubeRay makes pods one after the other: the first one runs before the next is there.
        fewest = {group["groupName"]: group["minReplicas"] for group in groups}
        empty = {group["groupName"] for group in groups if group["maxReplicas"] == 0}
        return {
            group
            for group, each in phases.items()
            if group not in empty and len(each) >= fewest.get(group, 1) and set(each) == {"Running"}
        }

    serve.running = running
    yield
    serve.running = None


@pytest.fixture
def nodes(plane: ControlPlane, everywhere: Admin) -> Iterator[Nodes]:
    """Yield a function that adds nodes, which are deleted after the test, when its pods are gone."""
    added = Nodes(plane, everywhere)
    yield added
    added.remove()


@pytest.fixture
def admin(everywhere: Admin, nodes: Nodes) -> Iterator[Admin]:
    """Yield an `Admin` in a namespace for the test only; its GPUs are free again after the test."""
    with own_namespace(everywhere, "gpu") as own:
        eventually("the default account", lambda: own.get("ServiceAccount", "default"))
        yield own
        for kind in ("LLMService", "ServeApplication"):
            for each in own.list(kind):
                own.delete(kind, each["metadata"]["name"])
        eventually("all pods gone", lambda: everything_gone(own))


@pytest.fixture
def exact(admin: Admin, nodes: Nodes, serve_by_pods: None, answers: Path, traffic: Path) -> Exact:
    """One GPU, and who needs it."""
    nodes.add(h100("h100-exact", 1, **{NAME: "yes"}))
    return Exact(admin, answers, traffic)
