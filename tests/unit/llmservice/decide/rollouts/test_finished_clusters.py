"""Replaced Ray clusters without remaining requests."""

from dataclasses import replace
from typing import Any

import pytest

from daybreak.kinds.llmservice.decide.finished_clusters import finished_clusters
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.workloads.observed import GatewayView
from tests.unit.llmservice.decide.scenes.services import World, running
from tests.unit.llmservice.decide.scenes.sleeping import up

OLDEST, OLD, NEW = "chat-00000", "chat-aaaaa", "chat-bbbbb"


def cluster(name: str, minute: int, **metadata: Any) -> dict[str, Any]:
    """Return a RayCluster that was created in that minute."""
    created = f"2026-11-21T12:{minute:02}:00Z"
    return {"metadata": {"name": name, "creationTimestamp": created, **metadata}, "spec": {}}


@pytest.fixture
def world() -> World:
    """Return a service whose traffic has moved to a second cluster."""
    made = up()
    made.step(
        ray_service=running(made, active=NEW),
        ray_clusters=(cluster(OLDEST, 0), cluster(OLD, 1), cluster(NEW, 2)),
        answers={"tiny": True},
    )
    return made


def names(world: World, clusters: frozenset[str] | None, **changes: Any) -> list[str]:
    """Return the finished clusters, if gateways use the given ones."""
    gateway = world.observed.gateway
    assert gateway is not None
    observed: Observed = replace(
        world.observed, **{"gateway": replace(gateway, clusters=clusters), **changes}
    )
    return [found["metadata"]["name"] for found in finished_clusters(observed)]


def test_replaced_cluster_is_finished_if_unused_by_gateways(world: World) -> None:
    assert names(world, frozenset({NEW})) == [OLDEST, OLD]
    assert names(world, frozenset({NEW, OLD})) == [OLDEST]
    assert names(world, frozenset({NEW, OLD, OLDEST})) == []


def test_no_cluster_is_finished_if_gateways_or_ray_service_are_unknown(world: World) -> None:
    assert names(world, None) == []
    assert names(world, frozenset(), gateway=None) == []
    assert names(world, frozenset(), gateway=GatewayView(20001, clusters=frozenset(), past=True)) == []
    assert names(world, frozenset(), ray_service=None) == []


def test_cluster_in_deletion_is_not_finished(world: World) -> None:
    clusters = (cluster(OLD, 1, deletionTimestamp="2026-11-21T12:30:00Z"), cluster(NEW, 2))
    assert names(world, frozenset({NEW}), ray_clusters=clusters) == []


def test_new_cluster_missing_in_kuberay_status_is_not_finished(world: World) -> None:
    fresh = "chat-ccccc"
    for minute in (2, 3):
        clusters = (cluster(NEW, 2), cluster(fresh, minute))
        assert names(world, frozenset({NEW}), ray_clusters=clusters) == []


def test_cluster_that_never_served_is_finished_after_replacement(world: World) -> None:
    pending = "chat-ccccc"
    clusters = (cluster(OLD, 1), cluster(NEW, 2), cluster(pending, 3))
    ray_service = running(world, active=OLD, pending=pending)
    status = {**world.observed.status, "gate": {"backends": [{"cluster": OLD}]}}
    manifest = {**world.observed.manifest, "status": status}
    changes = {"ray_clusters": clusters, "ray_service": ray_service, "manifest": manifest}
    assert names(world, frozenset({OLD}), **changes) == [NEW]


def test_cluster_named_in_gate_status_is_not_finished(world: World) -> None:
    """Gateways follow the status: a new gateway would begin to use the cluster."""
    status = {**world.observed.status, "gate": {"backends": [{"cluster": OLD}]}}
    assert names(world, frozenset({NEW}), manifest={**world.observed.manifest, "status": status}) == [OLDEST]
