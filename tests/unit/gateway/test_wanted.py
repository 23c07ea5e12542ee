"""What HAProxy should be told of a service."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.api.common import names
from daybreak.api.ray.routing import PrefixRouting, SessionRouting
from daybreak.gateway.agent.wanted import (
    FALLBACK_REPLICAS,
    IMBALANCED_THRESHOLD,
    MAX_BODY_BYTES,
    Claims,
    Ports,
    Wanted,
    wanted,
)
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Choice, Gate, Policy

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "name", "spec", "models", "hold", "status", "gate", "state", "port"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def manifest(gate: Any, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "tiny", "uid": "u1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"models": [{"name": "small"}, {"name": "org/big"}], **spec},
        "status": {"gate": gate},
    }


def gate(**more: Any) -> dict[str, Any]:
    return {"state": "Open", "epoch": 7, "port": 20003, "holdSeconds": 90, "cluster": "tiny-abc"} | more


def head(
    host: str = "10.0.0.1", cluster: str = "tiny-abc", kind: str = "head", **more: Any
) -> dict[str, Any]:
    labels = {"ray.io/cluster": cluster, "ray.io/node-type": kind}
    metadata = {"name": "h", "labels": labels} | more.pop("metadata", {})
    return {"metadata": metadata, "status": {"podIP": host, "phase": "Running"} | more}


def worker(model: str, host: str = "10.0.0.9", cluster: str = "tiny-abc", **more: Any) -> dict[str, Any]:
    labels = {
        "ray.io/cluster": cluster,
        "ray.io/node-type": "worker",
        "daybreak.dev/model": names.worker_group(model),
    }
    metadata = {"name": "w", "labels": labels} | more.pop("metadata", {})
    return {"metadata": metadata, "status": {"podIP": host, "phase": "Running"} | more}


def read(found: Any, *pods: Any) -> Wanted:
    claim = wanted(found, pods, Ports())
    assert claim is not None
    return claim


def test_all_of_it() -> None:
    hold = {"maxRequests": 5, "maxBodyBytes": "1Ki"}
    claim = read(manifest(gate(), hold=hold), head())
    service = claim.service
    assert (claim.port, claim.uid, claim.servers) == (20003, "u1", (Server("10.0.0.1", 8000),))
    assert (service.name, service.gate, service.epoch, service.hold_ms) == ("tiny", Gate.OPEN, 7, 90_000)
    assert (service.max_held, service.max_body_bytes) == (5, 1024)
    assert service.models == ("small", "org/big")


@pytest.mark.parametrize(
    ("named", "expected"),
    [(["tiny"], ("tiny",)), (["a", 7, "", "b"], ("a", "b")), ([], ()), (None, ("small", "org/big"))],
)
def test_models_are_those_of_the_gate(named: Any, expected: tuple[str, ...]) -> None:
    """The spec's, where an operator from before has named none."""
    assert read(manifest(gate(models=named))).service.models == expected


def test_defaults() -> None:
    service = read(manifest(gate())).service
    assert (service.max_held, service.max_body_bytes) == (1000, 10 * 2**20)


@pytest.mark.parametrize(
    ("state", "expected"),
    [("Open", Gate.OPEN), ("Closed", Gate.CLOSED), ("Failed", Gate.FAILED), ("Unheard", Gate.CLOSED)],
)
def test_gates(state: str, expected: Gate) -> None:
    assert read(manifest(gate(state=state))).service.gate is expected


@pytest.mark.parametrize("found", [None, {}, {"port": "20003"}, []])
def test_no_gate_no_port(found: Any) -> None:
    assert wanted(manifest(found), (), Ports()) is None


@pytest.mark.parametrize("size", ["many", "", -1, [], {"a": 1}])
def test_a_size_that_nobody_can_read(size: Any) -> None:
    assert read(manifest(gate(), hold={"maxBodyBytes": size})).service.max_body_bytes == MAX_BODY_BYTES


def test_nothing_may_be_held() -> None:
    assert read(manifest(gate(), hold={"maxRequests": 0})).service.max_held == 0


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
def test_pods_that_take_no_requests(pod: Any) -> None:
    found = read(manifest(gate()), pod)
    assert [found.servers, *(group.servers for group in found.groups)] == [(), (), ()]


def test_without_a_cluster_nobody_is_asked() -> None:
    found = read(manifest(gate(cluster=None)), head(), head(cluster=""), worker("small", cluster=""))
    assert [found.servers, *(group.servers for group in found.groups)] == [(), (), ()]


def test_the_replicas_of_one_model_come_before_the_proxy() -> None:
    one = manifest(gate(models=["small"]), models=[{"name": "small", "serve": {"maxOngoingRequests": 7}}])
    found = read(one, head(), worker("small", "10.0.0.3"), worker("small", "10.0.0.2"), worker("other"))
    assert found.groups == ()
    assert found.servers == (
        Server("10.0.0.2", 8100, max_connections=7),
        Server("10.0.0.3", 8100, max_connections=7),
        Server("10.0.0.1", 8000, backup=True),
    )
    assert (found.service.replicas_listen, found.service.adapters) == (True, ())


def test_without_direct_ingress_the_proxy_alone_is_asked() -> None:
    one = manifest(gate(), models=[{"name": "small"}], runtime={"directIngress": False})
    found = read(one, head(), worker("small", "10.0.0.2"))
    assert (found.servers, found.groups) == ((Server("10.0.0.1", 8000),), ())
    assert not found.service.replicas_listen


def test_several_models_have_a_group_each_and_adapters_go_with_their_base() -> None:
    models = [
        {"name": "small", "lora": {"adapters": [{"name": "kind"}, {"name": "rude"}]}},
        {"name": "org/big"},
    ]
    found = read(
        manifest(gate(models=["small", "kind", "org/big", "rude"]), models=models),
        head(),
        worker("small", "10.0.0.2"),
        worker("org/big", "10.0.0.3"),
    )
    backup = Server("10.0.0.1", 8000, backup=True)
    assert found.servers == (Server("10.0.0.1", 8000),)
    assert [(group.models, group.servers) for group in found.groups] == [
        (("small", "kind", "rude"), (Server("10.0.0.2", 8100, max_connections=256), backup)),
        (("org/big",), (Server("10.0.0.3", 8100, max_connections=256), backup)),
    ]
    assert found.service.adapters == ("kind", "rude")


def test_a_model_that_the_spec_has_no_more_keeps_its_replicas() -> None:
    """The cluster of yesterday serves on until its successor does."""
    found = read(manifest(gate(models=["old"])), head(), worker("old", "10.0.0.2"))
    assert found.servers[0] == Server("10.0.0.2", 8100, max_connections=256)


@given(JSON, st.lists(JSON, max_size=2))
@settings(max_examples=200)
def test_any_manifest_can_be_read(found: Any, pods: list[Any]) -> None:
    if isinstance(found, dict):
        wanted(found, [pod for pod in pods if isinstance(pod, dict)], Ports())


def claim(name: str, port: int, created: str = "1") -> Wanted:
    found = manifest(gate(port=port))
    found["metadata"] |= {"name": name, "uid": name, "creationTimestamp": created}
    return read(found)


def holder(claims: Claims, port: int) -> str | None:
    found = claims.holder(port)
    return found.service.name if found else None


def test_the_older_one_keeps_the_port() -> None:
    claims = Claims()
    assert claims.put("young", claim("young", 20000, "2")) == {20000}
    assert holder(claims, 20000) == "young"
    claims.put("old", claim("old", 20000, "1"))
    assert holder(claims, 20000) == "old"
    assert claims.put("old", None) == {20000}
    assert holder(claims, 20000) == "young"


def test_a_service_that_moves() -> None:
    claims = Claims()
    claims.put("one", claim("one", 20000))
    assert claims.put("one", claim("one", 20001)) == {20000, 20001}
    assert (holder(claims, 20000), holder(claims, 20001)) == (None, "one")
    assert claims.put("one", None) == {20001}
    assert claims.put("one", None) == set()


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
def test_routing(routing: Any, expected: Choice | None) -> None:
    model = {"name": "small", "serve": {"maxOngoingRequests": 7}, "routing": routing}
    adapters = {"lora": {"adapters": [{"name": "kind"}]}}
    found = manifest(gate(), models=[model | adapters, {"name": "other"}])
    choices = read(found).service.choices
    assert choices == ({"small": expected, "kind": expected} if expected else {})
    found["spec"]["runtime"] = {"directIngress": False}
    assert read(found).service.choices == {}, "Serve chooses"


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
def test_how_many_may_wait_for_a_replica(serve: Any, workers: int, expected: int) -> None:
    found = manifest(gate(), models=[{"name": "small", "serve": serve}])
    pods = [worker("small", f"10.0.0.{number + 1}") for number in range(workers)]
    assert read(found, *pods).service.queues == {"small": expected}
    found["spec"]["runtime"] = {"directIngress": False}
    assert read(found, *pods).service.queues == {}, "Serve's proxy has a queue of its own"


def test_the_defaults_of_routing_are_those_of_the_api() -> None:
    assert SessionRouting().fallback_replicas == FALLBACK_REPLICAS
    assert PrefixRouting().imbalanced_threshold == IMBALANCED_THRESHOLD
