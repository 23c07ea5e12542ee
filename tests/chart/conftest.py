"""Helm for every chart test, and a real API server for those in the group `chart-plane`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import ControlPlane
from tests import leader_worker_sets
from tests.chart.api_server import make_namespace, remove_crds
from tests.chart.tools import CHART, NAMESPACE, Helm, Manifest, argo_crds, monitor_crds
from tests.kuberay_crds import kuberay_crds


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Helm without a cluster."""
    return Helm()


@pytest.fixture(scope="session")
def rendered(helm: Helm) -> list[Manifest]:
    """Return the chart with its default values."""
    return helm.template()


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """API server with the kinds of KubeRay, Argo CD, LeaderWorkerSet and the Prometheus operator.

    Tests that use it share it, so they belong in the xdist group `chart-plane`.
    """
    several = tmp_path_factory.mktemp("crds") / "leader_worker_sets.json"
    several.write_text(json.dumps(leader_worker_sets.crd()))
    crds: list[Path] = [kuberay_crds(), argo_crds(), *monitor_crds(), several]
    with ControlPlane(tmp_path_factory.mktemp("chart") / "plane", crds=crds) as running:
        yield running


@pytest.fixture
def cluster_helm(plane: ControlPlane) -> Iterator[Helm]:
    """Helm with the API server; installed objects are removed afterwards, except the CRDs.

    The next release of this name in this namespace uses the CRDs again.
    """
    make_namespace(plane, NAMESPACE)
    helm = Helm(plane.kubeconfig)
    yield helm
    for release in json.loads(helm("list", "--all-namespaces", "--output", "json")):
        helm("uninstall", release["name"], "--namespace", release["namespace"])


@pytest.fixture
def without_crds(plane: ControlPlane) -> None:
    """An API server that has none of our CRDs, for tests of how they come."""
    remove_crds(plane)


@pytest.fixture
def with_crd(plane: ControlPlane) -> Iterator[ControlPlane]:
    """Yield the API server with our CRDs, which no release of Helm's could take over afterwards."""
    plane.install_crds([CHART / "files" / "crds"])
    yield plane
    remove_crds(plane)
