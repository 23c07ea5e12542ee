"""The servers of a model: replicas, the proxy, and their limits."""

from typing import Any

import pytest

from daybreak.api.ray.model import Placement
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Choice, Policy
from tests.unit.gateway.manifests import entry, gate, head, manifest, read, small, worker


@pytest.mark.parametrize(
    "pod",
    [
        head(cluster="tiny-old"),
        head(kind="worker"),
        worker("big", metadata={"labels": {"ray.io/cluster": "tiny-abc", "ray.io/node-type": "worker"}}),
        head(host=""),
        head(phase="Failed"),
        head(phase="Succeeded"),
        head(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        {},
    ],
)
def test_unusable_pod_is_no_server(pod: Any) -> None:
    found = read(manifest(gate()), pod)
    assert [each.servers for each in (found.front, *found.gates)] == [(), (), ()]


@pytest.mark.parametrize(
    "backends", [None, [], [{}], [{"cluster": ""}], [{"cluster": "tiny-abc", "weight": 0}]]
)
def test_gate_without_cluster_has_no_servers(backends: Any) -> None:
    found = read(
        manifest(gate(backends=backends)),
        head(),
        head(cluster=""),
        worker("small"),
        worker("small", cluster=""),
    )
    assert [each.servers for each in (found.front, *found.gates)] == [(), (), ()]


def test_proxy_is_backup_behind_replicas_of_model() -> None:
    one = manifest(gate(entry("small")), models=[{"name": "small", "serve": {"maxOngoingRequests": 7}}])
    found = small(one, head(), worker("small", "10.0.0.3"), worker("small", "10.0.0.2"), worker("other"))
    assert found.servers == (
        Server("10.0.0.2", 8100, max_connections=7),
        Server("10.0.0.3", 8100, max_connections=7),
        Server("10.0.0.1", 8000, backup=True),
    )
    assert (found.slot.replicas_listen, found.slot.adapters) == (True, ())


def test_proxy_is_the_only_server_without_direct_ingress() -> None:
    found = small(manifest(gate(), runtime={"directIngress": False}), head(), worker("small", "10.0.0.2"))
    assert found.servers == (Server("10.0.0.1", 8000, max_connections=256),)
    assert not found.slot.replicas_listen


def test_proxy_connections_are_limited_to_capacity_of_its_replicas() -> None:
    model = {"name": "small", "serve": {"maxOngoingRequests": 7}}
    described = manifest(
        gate(backends=[{"cluster": "tiny-abc"}, {"cluster": "tiny-new"}]),
        models=[model, {"name": "org/big"}],
        runtime={"directIngress": False},
    )
    old = [worker("small", f"10.0.0.{number}") for number in (2, 3)]
    pods = [head(), *old, worker("org/big", "10.0.0.4"), head("10.0.1.1", "tiny-new")]
    assert {server.host: server.max_connections for server in small(described, *pods).servers} == {
        "10.0.0.1": 14,
        "10.0.1.1": 7,
    }
    front = read(described, *pods).front
    assert {server.max_connections for server in front.servers} == {0}, "no model is known at the front"


def test_gate_has_replicas_and_adapters_of_its_model() -> None:
    found = read(
        manifest(gate(entry("small", adapters=["kind", "rude"]), entry("org/big"))),
        head(),
        worker("small", "10.0.0.2"),
        worker("org/big", "10.0.0.3"),
    )
    backup = Server("10.0.0.1", 8000, backup=True)
    assert found.front.servers == (Server("10.0.0.1", 8000),)
    assert [(each.slot.models, each.slot.adapters, each.servers) for each in found.gates] == [
        (
            ("small", "kind", "rude"),
            ("kind", "rude"),
            (Server("10.0.0.2", 8100, max_connections=256), backup),
        ),
        (("org/big",), (), (Server("10.0.0.3", 8100, max_connections=256), backup)),
    ]


def test_model_removed_from_spec_keeps_its_replicas() -> None:
    """The previous cluster serves until its successor does."""
    found = small(manifest(gate(entry("old"))), head(), worker("old", "10.0.0.2"))
    assert found.servers[0] == Server("10.0.0.2", 8100, max_connections=256)


def test_servers_have_models_and_weights_of_their_cluster() -> None:
    backends = [
        {"cluster": "tiny-abc", "weight": 90},
        {"cluster": "tiny-new", "models": ["small"], "weight": 10},
        {"cluster": "tiny-none", "weight": 0},
    ]
    pods = [
        made
        for number, cluster in enumerate(("tiny-abc", "tiny-new", "tiny-none"))
        for made in (
            head(f"10.0.1.{number}", cluster),
            worker("small", f"10.0.2.{number}", cluster),
            worker("org/big", f"10.0.3.{number}", cluster),
        )
    ]
    found = read(manifest(gate(backends=backends)), *pods)
    assert [each.servers for each in (*found.gates, found.front)] == [
        (
            Server("10.0.2.0", 8100, max_connections=256, weight=90),
            Server("10.0.2.1", 8100, max_connections=256, weight=10),
            Server("10.0.1.0", 8000, backup=True, weight=90),
            Server("10.0.1.1", 8000, backup=True, weight=10),
        ),
        (
            Server("10.0.3.0", 8100, max_connections=256),
            Server("10.0.1.0", 8000, backup=True),
        ),
        (Server("10.0.1.0", 8000, weight=90), Server("10.0.1.1", 8000, weight=10)),
    ]


@pytest.mark.parametrize(
    ("routing", "expected"),
    [
        (None, None),
        ({"policy": "PowerOfTwo"}, None),
        ({"policy": "Unheard"}, None),
        ({"policy": ["Session"]}, None),
        ({"policy": "RoundRobin"}, Choice(Policy.TURNS, 7)),
        ({"policy": "Session"}, Choice(Policy.SESSION, 7, 2)),
        ({"policy": "Session", "session": {"fallbackReplicas": 0}}, Choice(Policy.SESSION, 7, 0)),
        ({"policy": "Prefix"}, Choice(Policy.PREFIX, 7, 16)),
        ({"policy": "Prefix", "prefix": {"imbalancedThreshold": 4}}, Choice(Policy.PREFIX, 7, 4)),
    ],
)
def test_routing_policy_determines_choice_of_replica(routing: Any, expected: Choice | None) -> None:
    model = {"name": "small", "serve": {"maxOngoingRequests": 7}, "routing": routing}
    found = manifest(gate(), models=[model, {"name": "org/big"}])
    assert [each.slot.choice for each in read(found).gates] == [expected, None]
    found["spec"]["runtime"] = {"directIngress": False}
    assert small(found).slot.choice is None, "Serve chooses"


@pytest.mark.parametrize(
    ("serve", "workers", "expected"),
    [
        ({}, 0, 1000),
        ({}, 2, 1000),
        ({"maxOngoingRequests": 600}, 2, 1200),
        ({"maxOngoingRequests": 600, "maxQueuedRequests": -1}, 3, 1800),
        ({"maxQueuedRequests": 5}, 2, 5),
        ({"maxQueuedRequests": "many"}, 2, 1000),
    ],
)
def test_queue_limit_follows_replicas_and_max_queued_requests(
    serve: Any, workers: int, expected: int
) -> None:
    found = manifest(gate(), models=[{"name": "small", "serve": serve}])
    pods = [worker("small", f"10.0.0.{number + 1}") for number in range(workers)]
    assert small(found, *pods).slot.queue == expected
    found["spec"]["runtime"] = {"directIngress": False}
    assert small(found, *pods).slot.queue == expected, "the same before Serve's proxy"


@pytest.mark.parametrize(
    ("placement", "parallelism", "replicas"),
    [
        (None, {"pipeline": 2}, 2),
        (Placement.PACK.value, {"pipeline": 3, "tensor": 2}, 2),
        (Placement.STRICT_PACK.value, {"pipeline": 2}, 4),
        (None, {"tensor": 4}, 4),
        (None, {"pipeline": "many"}, 4),
    ],
)
def test_pipeline_stages_count_as_one_replica(placement: Any, parallelism: Any, replicas: int) -> None:
    model = {
        "name": "small",
        "serve": {"maxOngoingRequests": 600},
        "placement": placement,
        "parallelism": parallelism,
    }
    found = manifest(gate(), models=[model])
    pods = [worker("small", f"10.0.0.{number + 1}") for number in range(4)]
    assert small(found, *pods).slot.queue == 600 * replicas
