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


def test_what_gateways_have_left(world: World) -> None:
    assert names(world, frozenset({NEW})) == [OLDEST, OLD]
    assert names(world, frozenset({NEW, OLD})) == [OLDEST]
    assert names(world, frozenset({NEW, OLD, OLDEST})) == []


def test_where_nobody_knows_what_is_left_nothing_goes(world: World) -> None:
    assert names(world, None) == []
    assert names(world, frozenset(), gateway=None) == []
    assert names(world, frozenset(), gateway=GatewayView(20001, clusters=frozenset(), past=True)) == []
    assert names(world, frozenset(), ray_service=None) == []


def test_one_that_is_being_deleted_is_left_alone(world: World) -> None:
    clusters = (cluster(OLD, 1, deletionTimestamp="2026-11-21T12:30:00Z"), cluster(NEW, 2))
    assert names(world, frozenset({NEW}), ray_clusters=clusters) == []


def test_one_that_kuberay_has_just_made_is_not_known_to_its_status_yet(world: World) -> None:
    fresh = "chat-ccccc"
    for minute in (2, 3):
        clusters = (cluster(NEW, 2), cluster(fresh, minute))
        assert names(world, frozenset({NEW}), ray_clusters=clusters) == []


def test_one_that_was_replaced_before_it_served(world: World) -> None:
    pending = "chat-ccccc"
    clusters = (cluster(OLD, 1), cluster(NEW, 2), cluster(pending, 3))
    ray_service = running(world, active=OLD, pending=pending)
    status = {**world.observed.status, "gate": {"backends": [{"cluster": OLD}]}}
    manifest = {**world.observed.manifest, "status": status}
    changes = {"ray_clusters": clusters, "ray_service": ray_service, "manifest": manifest}
    assert names(world, frozenset({OLD}), **changes) == [NEW]


def test_the_one_that_the_status_still_names_stays(world: World) -> None:
    """Gateways follow the status: a new gateway would begin to use the cluster."""
    status = {**world.observed.status, "gate": {"backends": [{"cluster": OLD}]}}
    assert names(world, frozenset({NEW}), manifest={**world.observed.manifest, "status": status}) == [OLDEST]
