"""One control plane for all API tests of a worker: etcd, kube-apiserver, the garbage collector, real CRDs.

If a test needs KubeRay to act, the test itself writes the results ("plays KubeRay", `played.py`): there is no
KubeRay and no node here, and the operator cannot see a difference.
"""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import ControlPlane, paths
from tests.api.admin import Admin, own_namespace
from tests.api.fixtures import answers, gated, operator, player, sleeper, traffic
from tests.api.operator_process import PLAYED_OPERATOR, OperatorProcess
from tests.kuberay_crds import kuberay_crds

__all__ = ("answers", "gated", "operator", "player", "sleeper", "traffic")  # fixtures

CRDS = paths.REPOSITORY / "charts" / "daybreak" / "files" / "crds"
JOBS = "tests.api.objects.jobs"
"""Group of the tests that simulate a job: they all listen on the one port of this machine that jobs use."""


# First: pytest-xdist reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file on one worker, and those that play jobs.

    A worker starts the control plane that they share once, however many files come to it.
    """
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and isinstance(item, pytest.Function):
            plays_jobs = any(getattr(each, "__module__", "") == JOBS for each in vars(item.module).values())
            item.add_marker(pytest.mark.xdist_group("api-jobs" if plays_jobs else f"api-{item.path.stem}"))


def start_plane(name: str, *, kuberay: bool = True, controllers: bool = False) -> ControlPlane:
    """Start a separate control plane, for a test whose actions would disturb other tests."""
    everybodys = paths.DAYBREAK / "tests"
    for left in everybodys.glob("*-*"):
        # A run that was killed could not end its own.
        if not Path("/proc", left.name.rpartition("-")[2]).exists():
            ControlPlane(left).remove()
    directory = everybodys / f"{name}-{os.getpid()}"
    return ControlPlane(
        directory, crds=[CRDS, *([kuberay_crds()] if kuberay else [])], controllers=controllers
    )


@pytest.fixture(scope="package")
def plane() -> Iterator[ControlPlane]:
    """Yield the control plane that the API tests share."""
    with start_plane("shared", controllers=True) as shared:
        yield shared


@pytest.fixture
def admin(plane: ControlPlane) -> Iterator[Admin]:
    """Yield an `Admin` in a namespace for the test only."""
    with own_namespace(Admin(plane.kubeconfig), "test") as own:
        yield own


@pytest.fixture
def alone(plane: ControlPlane, admin: Admin, tmp_path: Path, answers: Path) -> Iterator[Any]:
    """Start operators that watch the test's namespace only, and end them after the test.

    Each operator is a separate pod, unless `pod` names the pod that starts again.
    """
    started: list[OperatorProcess] = []
    numbers = itertools.count(1)

    def make(pod: str = "", **settings: str) -> OperatorProcess:
        number = next(numbers)
        own = {
            "NAMESPACE": admin.namespace,
            "OPERATOR_NAMESPACE": admin.namespace,
            "PLAYED_ANSWERS": str(answers),
        }
        process = OperatorProcess(
            plane.kubeconfig,
            tmp_path / f"operator-{number}.log",
            pod or f"operator-{number}",
            PLAYED_OPERATOR,
            **(own | settings),
        )
        started.append(process)
        return process

    yield make
    for process in started:
        if process.running:
            process.kill()
