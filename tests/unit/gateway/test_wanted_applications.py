"""Desired HAProxy configuration of a ServeApplication."""

from typing import Any

import pytest

from daybreak.gateway.hold.servers import Server
from tests.unit.gateway.manifests import PATHS, application, entry, gate, head, manifest, ray_pod, read


@pytest.mark.parametrize(("protocol", "paths"), PATHS)
def test_requests_of_application_go_only_to_its_ray_head(protocol: str, paths: str) -> None:
    claim = read(application(protocol=protocol), ray_pod("head", "10.0.0.5"), ray_pod("worker", "10.0.0.6"))
    assert claim.name == "application.tiny"
    [only] = claim.gates
    assert only.servers == (Server("10.0.0.5", 8000),)
    assert only.slot.paths == claim.front.slot.paths == paths
    assert claim.models == (), "no name leads to it"
    assert not only.slot.replicas_listen


@pytest.mark.parametrize(
    ("deployments", "limit", "queue"),
    [
        (None, 0, 1000),
        ([{"name": "A"}], 5, 1000),
        ([{"name": "A", "numReplicas": 3, "maxOngoingRequests": 10}, {"name": "B"}], 35, 1000),
        ([{"name": "A", "autoscaling": {"maxReplicas": 40}, "maxOngoingRequests": 100}], 4000, 4000),
        ([{"name": "A", "numReplicas": "3", "maxOngoingRequests": None}, 7], 5, 1000),
    ],
)
def test_application_connections_match_capacity_of_deployments(
    deployments: Any, limit: int, queue: int
) -> None:
    claim = read(application(deployments=deployments), ray_pod("head", "10.0.0.5"))
    assert claim.gates[0].servers == (Server("10.0.0.5", 8000, max_connections=limit),)
    assert claim.gates[0].slot.queue == queue


def test_openai_application_has_model_names() -> None:
    claim = read(application(protocol="OpenAI", models=["one", "two"]), ray_pod("head", "10.0.0.5"))
    assert claim.models == ("one", "two")
    assert claim.gates[0].slot.paths == ""


@pytest.mark.parametrize(
    ("routes", "paths", "prefixes"),
    [
        ([{"prefix": "/words"}, {"prefix": "/api/v1"}], "routes", ("words/", "api/v1/")),
        ([{"prefix": "/words"}, {"prefix": "/"}], "any", ()),
        ([], "any", ()),
        (None, "any", ()),
    ],
)
def test_application_accepts_only_paths_of_its_routes(routes: Any, paths: str, prefixes: Any) -> None:
    found = manifest(gate(entry("tiny"), protocol="Any"), routes=routes) | {"kind": "ServeApplication"}
    slot = read(found, head()).front.slot
    assert (slot.paths, slot.routes) == (paths, prefixes)
    other = manifest(gate(entry("tiny"), protocol="Any"), routes=routes)
    assert read(other, head()).front.slot.paths == "any", "of an application alone"
