"""Helm for every chart test, and a real API server for those in the group `chart-plane`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import ControlPlane
from tests import leader_worker_sets
from tests.chart.tools import Helm, Manifest, argo_crds, monitor_crds
from tests.kuberay_crds import kuberay_crds


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Helm without a cluster."""
    return Helm()


@pytest.fixture(scope="session")
def rendered(helm: Helm) -> list[Manifest]:
    """The chart with its default values."""
    return helm.template()


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that knows the kinds of KubeRay, Argo CD, LeaderWorkerSet and the Prometheus operator, as
    a user's would.

    Tests that use it share it, so they belong in the xdist group `chart-plane`.
    """
    several = tmp_path_factory.mktemp("crds") / "leader_worker_sets.json"
    several.write_text(json.dumps(leader_worker_sets.crd()))
    crds: list[Path] = [kuberay_crds(), argo_crds(), *monitor_crds(), several]
    with ControlPlane(tmp_path_factory.mktemp("chart") / "plane", crds=crds) as running:
        yield running
