"""A cluster with the real controller of LeaderWorkerSet; nodes and kubelets are played by kwok."""

import os
from collections.abc import Iterator

import pytest

from cluster import ControlPlane, FakeNode, paths
from tests.api.admin import Admin, eventually, own_namespace
from tests.api.conftest import CRDS
from tests.api.fixtures import answers, gated, operator, player, traffic
from tests.by_hand.lws import crds, lws

__all__ = ("answers", "gated", "operator", "player", "traffic")  # fixtures


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """Yield the cluster, with nodes of 8 GPUs."""
    nodes = [FakeNode(f"node-{number}", taints=()) for number in range(4)]
    directory = paths.DAYBREAK / "tests" / f"lws-{os.getpid()}"
    with (
        ControlPlane(
            directory, crds=[CRDS, crds()], controllers=True, scheduler=True, fake_nodes=nodes
        ) as cluster,
        lws(cluster),
    ):
        yield cluster


@pytest.fixture
def admin(plane: ControlPlane) -> Iterator[Admin]:
    """Yield an `Admin` in a namespace for the test only."""
    with own_namespace(Admin(plane.kubeconfig), "lws") as own:
        eventually("the default account", lambda: own.get("ServiceAccount", "default"))
        yield own
