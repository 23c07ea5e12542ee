"""What HAProxy should be told of a service."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.api.common import names
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.ray.model import Placement
from daybreak.api.ray.routing import PrefixRouting, SessionRouting
from daybreak.api.serveapplication.deployment import Deployment
from daybreak.gateway.hold.servers import Server
from daybreak.gateway.hold.table import Choice, Gate, Policy
from daybreak.gateway.wanted.gates import (
    DEPLOYMENT_ONGOING,
    FALLBACK_REPLICAS,
    IMBALANCED_THRESHOLD,
    MAX_BODY_BYTES,
    Claims,
    Ports,
    Wanted,
    WantedGate,
    wanted,
)
from daybreak.kinds.modelserver.objects.deployment import deployment
from daybreak.platform import Platform
from tests.budget import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "name", "spec", "models", "hold", "status", "gate", "state", "port", "backends"]
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


def entry(name: str, state: Any = "Open", **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "epoch": 7, "holdSeconds": 90} | more


def gate(*models: Any, **more: Any) -> dict[str, Any]:
    found = models or (entry("small"), entry("org/big", epoch=9))
    return {"port": 20003, "backends": [{"cluster": "tiny-abc"}], "models": list(found)} | more


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


def small(found: Any, *pods: Any) -> WantedGate:
    """The gate of the first model."""
    return read(found, *pods).gates[0]


def test_all_of_it() -> None:
    hold = {"maxRequests": 5, "maxBodyBytes": "1Ki"}
    claim = read(manifest(gate(), hold=hold), head())
    assert (claim.port, claim.uid, claim.name) == (20003, "u1", "tiny")
    assert claim.models == ("small", "org/big")
    slots = [each.slot for each in (*claim.gates, claim.front)]
    assert [(slot.service, slot.model, slot.gate, slot.epoch) for slot in slots] == [
        ("tiny", "small", Gate.OPEN, 7),
        ("tiny", "org/big", Gate.OPEN, 9),
        ("tiny", "", Gate.OPEN, 9),
    ]
    assert {(slot.hold_ms, slot.max_held, slot.max_body_bytes, slot.port) for slot in slots} == {
        (90_000, 5, 1024, 20003)
    }
    assert claim.front.servers == (Server("10.0.0.1", 8000),)
    assert [slot.front for slot in slots] == [False, False, True]


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ([entry("tiny")], ("tiny",)),
        ([entry("a", adapters=["x", 7, "", "a"]), 7, entry(""), {}, entry("b")], ("a", "x", "b")),
        ([], ()),
        (None, ()),
        (["small"], ()),
    ],
)
def test_models_are_those_of_the_gate(models: Any, expected: tuple[str, ...]) -> None:
    assert read(manifest(gate() | {"models": models})).models == expected


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        (
            {"userAgents": ["probe/1", "probe/1"], "keys": ["team", "keys/one"], "paths": ["/v1/embeddings"]},
            ("agent/probe/1", "key/team", "key/keys/one", "path/v1/embeddings"),
        ),
        ({"paths": [7, None, "/words"], "keys": "team"}, ("path/words",)),
        (None, ()),
    ],
)
@pytest.mark.parametrize("kind", ["LLMService", "ModelServer", "ServeApplication"])
def test_health_checks_are_told_of_what_takes_requests(kind: str, checks: Any, expected: Any) -> None:
    found = manifest(gate(entry("tiny")), sleep={"healthChecks": checks}) | {"kind": kind}
    claim = read(found, head())
    assert claim.front.slot.probes == expected
    assert claim.front.slot.front


def test_defaults() -> None:
    slot = small(manifest(gate())).slot
    assert (slot.max_held, slot.max_body_bytes) == (1000, 10 * 2**20)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Open", Gate.OPEN),
        ("Closed", Gate.CLOSED),
        ("Failed", Gate.FAILED),
        ("Unheard", Gate.CLOSED),
        ([], Gate.CLOSED),
    ],
)
def test_gates(state: Any, expected: Gate) -> None:
    assert small(manifest(gate(entry("small", state)))).slot.gate is expected


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((), Gate.CLOSED),
        (("Open", "Open"), Gate.OPEN),
        (("Open", "Closed"), Gate.CLOSED),
        (("Failed", "Closed"), Gate.CLOSED),
        (("Failed", "Open"), Gate.OPEN),
        (("Failed", "Failed"), Gate.FAILED),
    ],
)
def test_the_front_waits_for_all(states: tuple[str, ...], expected: Gate) -> None:
    models = [
        entry(f"m{number}", state, holdSeconds=10 + number, reason=f"no GPU {number}")
        for number, state in enumerate(states)
    ]
    front = read(manifest(gate() | {"models": models})).front.slot
    assert front.gate is expected
    if states:
        assert front.hold_ms == 11_000, "as long as any of them"
    if expected is Gate.FAILED:
        assert front.reason == "m0: no GPU 0; m1: no GPU 1"


@pytest.mark.parametrize("found", [None, {}, {"port": "20003"}, []])
def test_no_gate_no_port(found: Any) -> None:
    assert wanted(manifest(found), (), Ports()) is None


@pytest.mark.parametrize("size", ["many", "", -1, [], {"a": 1}])
def test_a_size_that_nobody_can_read(size: Any) -> None:
    assert small(manifest(gate(), hold={"maxBodyBytes": size})).slot.max_body_bytes == MAX_BODY_BYTES


def test_nothing_may_be_held() -> None:
    assert small(manifest(gate(), hold={"maxRequests": 0})).slot.max_held == 0


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
    assert [each.servers for each in (found.front, *found.gates)] == [(), (), ()]


@pytest.mark.parametrize(
    "backends", [None, [], [{}], [{"cluster": ""}], [{"cluster": "tiny-abc", "weight": 0}]]
)
def test_without_a_cluster_nobody_is_asked(backends: Any) -> None:
    found = read(
        manifest(gate(backends=backends)),
        head(),
        head(cluster=""),
        worker("small"),
        worker("small", cluster=""),
    )
    assert [each.servers for each in (found.front, *found.gates)] == [(), (), ()]


def test_the_replicas_of_a_model_come_before_the_proxy() -> None:
    one = manifest(gate(entry("small")), models=[{"name": "small", "serve": {"maxOngoingRequests": 7}}])
    found = small(one, head(), worker("small", "10.0.0.3"), worker("small", "10.0.0.2"), worker("other"))
    assert found.servers == (
        Server("10.0.0.2", 8100, max_connections=7),
        Server("10.0.0.3", 8100, max_connections=7),
        Server("10.0.0.1", 8000, backup=True),
    )
    assert (found.slot.replicas_listen, found.slot.adapters) == (True, ())


def test_without_direct_ingress_the_proxy_alone_is_asked() -> None:
    found = small(manifest(gate(), runtime={"directIngress": False}), head(), worker("small", "10.0.0.2"))
    assert found.servers == (Server("10.0.0.1", 8000, max_connections=256),)
    assert not found.slot.replicas_listen


def test_serves_proxy_gets_as_much_as_its_replicas_take() -> None:
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
    assert {server.max_connections for server in front.servers} == {0}, "which model's they are nobody knows"


def test_each_model_has_its_replicas_and_adapters_go_with_their_base() -> None:
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


def test_a_model_that_the_spec_has_no_more_keeps_its_replicas() -> None:
    """The cluster of yesterday serves on until its successor does."""
    found = small(manifest(gate(entry("old"))), head(), worker("old", "10.0.0.2"))
    assert found.servers[0] == Server("10.0.0.2", 8100, max_connections=256)


def test_clusters_have_the_models_and_the_weights_that_the_gate_gives_them() -> None:
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


@given(JSON, st.lists(JSON, max_size=2))
@settings(max_examples=examples(200))
def test_any_manifest_can_be_read(found: Any, pods: list[Any]) -> None:
    if isinstance(found, dict):
        wanted(found, [pod for pod in pods if isinstance(pod, dict)], Ports())


def claim(name: str, port: int, created: str = "1") -> Wanted:
    found = manifest(gate(port=port))
    found["metadata"] |= {"name": name, "uid": name, "creationTimestamp": created}
    return read(found)


def holder(claims: Claims, port: int) -> str | None:
    found = claims.holder(port)
    return found.name if found else None


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
def test_how_many_may_wait_for_a_replica(serve: Any, workers: int, expected: int) -> None:
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
def test_stages_of_a_pipeline_are_one_replica(placement: Any, parallelism: Any, replicas: int) -> None:
    model = {
        "name": "small",
        "serve": {"maxOngoingRequests": 600},
        "placement": placement,
        "parallelism": parallelism,
    }
    found = manifest(gate(), models=[model])
    pods = [worker("small", f"10.0.0.{number + 1}") for number in range(4)]
    assert small(found, *pods).slot.queue == 600 * replicas


def test_the_defaults_are_those_of_the_api() -> None:
    assert SessionRouting().fallback_replicas == FALLBACK_REPLICAS
    assert PrefixRouting().imbalanced_threshold == IMBALANCED_THRESHOLD
    assert Deployment(name="D").max_ongoing_requests == DEPLOYMENT_ONGOING


PATHS = [("Any", "any"), ("V2", "v2"), ("Later", "any")]
"""What passes by the protocol, one of a later operator too."""


def engine(host: str | None = "10.0.0.5", owner: str = "server.tiny", **more: Any) -> dict[str, Any]:
    """A pod of a ModelServer."""
    labels = names.labels(owner, names.SERVER_COMPONENT) | {names.MODEL_LABEL: names.worker_group("small")}
    metadata = {"name": "e", "labels": labels} | more.pop("metadata", {})
    return {"metadata": metadata, "status": {"podIP": host, "phase": "Running"} | more}


def model_server(state: str = "Open", **spec: Any) -> dict[str, Any]:
    """A ModelServer with a gate."""
    backend = {"cluster": "server.tiny", "port": 9000, "healthPath": "/up", "weight": 100}
    found = manifest(gate(entry("small", state), backends=[backend]), **spec)
    found["spec"] = {"model": {"name": "small"}, "maxOngoingRequests": 32, **spec}
    return {"kind": "ModelServer", **found}


def test_a_model_servers_pods_are_asked_at_their_own_port_and_path() -> None:
    claim = read(model_server(), engine(), engine("10.0.0.6"), worker("small"), head())
    assert claim.name == "server.tiny", "a service of that name is another one"
    assert claim.models == ("small",)
    [only] = claim.gates
    assert only.servers == (
        Server("10.0.0.5", 9000, max_connections=32),
        Server("10.0.0.6", 9000, max_connections=32),
    )
    assert only.slot.check == claim.front.slot.check == "/up"
    assert only.slot.replicas_listen
    assert "check=/up" in only.slot.words()
    assert claim.front.servers == ()


def test_workers_of_a_replica_on_several_nodes_get_nothing() -> None:
    several = {"accelerator": {"kind": "gpu"}, "parallelism": {"tensor": 2}, "nodes": 2}
    spec = {"engine": "vllm", "model": {"name": "small", "source": "file:///m"}, **several}
    one = ModelServer.from_manifest(
        {"metadata": {"name": "tiny", "namespace": "ns", "uid": "u"}, "spec": spec}
    )
    made = deployment(one, Platform("ray", "ray-cpu"), 1)["spec"]["leaderWorkerTemplate"]
    pods = [
        {"metadata": made[part]["metadata"], "status": {"podIP": host, "phase": "Running"}}
        for part, host in (("leaderTemplate", "10.0.0.5"), ("workerTemplate", "10.0.0.6"))
    ]
    assert [each.host for each in read(model_server(), *pods).gates[0].servers] == ["10.0.0.5"]


def test_pods_that_nobody_has_proven_get_nothing() -> None:
    found = model_server()
    found["status"]["gate"]["backends"][0]["configuration"] = "proven"
    pods = [engine(), engine("10.0.0.6"), engine("10.0.0.7")]
    for pod, runs in zip(pods, ("proven", "new", None), strict=True):
        if runs is not None:
            pod["metadata"]["labels"][names.CONFIGURATION_LABEL] = runs
    assert [each.host for each in read(found, *pods).gates[0].servers] == ["10.0.0.5"]


@pytest.mark.parametrize(("protocol", "paths"), PATHS)
def test_no_name_leads_to_a_model_server_of_another_protocol(protocol: str, paths: str) -> None:
    found = model_server()
    found["status"]["gate"]["protocol"] = protocol
    claim = read(found, engine())
    assert claim.models == ()
    [only] = claim.gates
    assert only.slot.model == "small", "keys are still for a model"
    assert only.slot.paths == claim.front.slot.paths == paths
    assert only.servers == (Server("10.0.0.5", 9000, max_connections=32),)


def test_pods_of_others_are_not_a_model_servers() -> None:
    others = [engine(owner="server.other"), engine(owner="tiny"), engine(phase="Failed"), engine(None)]
    leaving = engine(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert read(model_server(), *others, leaving).gates[0].servers == ()


@pytest.mark.parametrize("path", [None, "", "up", 7])
def test_a_health_path_that_is_none_is_that_of_ray_pods(path: Any) -> None:
    found = model_server()
    found["status"]["gate"]["backends"][0]["healthPath"] = path
    assert read(found, engine()).gates[0].slot.check == ""


def application(**spec: Any) -> dict[str, Any]:
    """A ServeApplication with a gate."""
    found = manifest(gate(entry("tiny"), backends=[{"cluster": "tiny-1", "weight": 100}]), **spec)
    found["spec"] = {"importPath": "a:b", **spec}
    found["status"]["gate"]["protocol"] = spec.get("protocol", "Any")
    return {"kind": "ServeApplication", **found}


def ray_pod(role: str, address: str) -> dict[str, Any]:
    """A pod of its Ray cluster."""
    labels = {names.RAY_CLUSTER_LABEL: "tiny-1", names.RAY_NODE_TYPE_LABEL: role, names.MODEL_LABEL: "cpu"}
    return {"metadata": {"name": role, "labels": labels}, "status": {"podIP": address, "phase": "Running"}}


@pytest.mark.parametrize(("protocol", "paths"), PATHS)
def test_an_application_is_asked_at_its_ray_head_alone(protocol: str, paths: str) -> None:
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
def test_an_application_gets_what_its_deployments_take(deployments: Any, limit: int, queue: int) -> None:
    claim = read(application(deployments=deployments), ray_pod("head", "10.0.0.5"))
    assert claim.gates[0].servers == (Server("10.0.0.5", 8000, max_connections=limit),)
    assert claim.gates[0].slot.queue == queue


def test_an_application_that_speaks_openai_has_names() -> None:
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
def test_routes_of_an_application_are_the_paths_that_pass(routes: Any, paths: str, prefixes: Any) -> None:
    found = manifest(gate(entry("tiny"), protocol="Any"), routes=routes) | {"kind": "ServeApplication"}
    slot = read(found, head()).front.slot
    assert (slot.paths, slot.routes) == (paths, prefixes)
    other = manifest(gate(entry("tiny"), protocol="Any"), routes=routes)
    assert read(other, head()).front.slot.paths == "any", "of an application alone"
