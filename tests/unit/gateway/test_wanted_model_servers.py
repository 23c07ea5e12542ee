"""Desired HAProxy configuration of a ModelServer."""

from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.modelserver.definition import ModelServer
from daybreak.gateway.hold.servers import Server
from daybreak.kinds.modelserver.objects.deployment import deployment
from daybreak.platform import Platform
from tests.unit.gateway.manifests import PATHS, engine, head, model_server, read, worker


def test_model_server_pods_use_their_own_port_and_health_path() -> None:
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


def test_worker_pods_of_multi_node_replica_get_no_requests() -> None:
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


def test_pods_with_unproven_configuration_get_no_requests() -> None:
    found = model_server()
    found["status"]["gate"]["backends"][0]["configurationHash"] = "proven"
    pods = [engine(), engine("10.0.0.6"), engine("10.0.0.7")]
    for pod, runs in zip(pods, ("proven", "new", None), strict=True):
        if runs is not None:
            pod["metadata"]["labels"][names.CONFIGURATION_LABEL] = runs
    assert [each.host for each in read(found, *pods).gates[0].servers] == ["10.0.0.5"]


@pytest.mark.parametrize(("protocol", "paths"), PATHS)
def test_model_server_with_other_protocol_has_no_model_names(protocol: str, paths: str) -> None:
    found = model_server()
    found["status"]["gate"]["protocol"] = protocol
    claim = read(found, engine())
    assert claim.models == ()
    [only] = claim.gates
    assert only.slot.model == "small", "keys are still for a model"
    assert only.slot.paths == claim.front.slot.paths == paths
    assert only.servers == (Server("10.0.0.5", 9000, max_connections=32),)


def test_foreign_or_unusable_pods_get_no_requests() -> None:
    others = [engine(owner="server.other"), engine(owner="tiny"), engine(phase="Failed"), engine(None)]
    leaving = engine(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert read(model_server(), *others, leaving).gates[0].servers == ()


@pytest.mark.parametrize("path", [None, "", "up", 7])
def test_invalid_health_path_is_ignored(path: Any) -> None:
    found = model_server()
    found["status"]["gate"]["backends"][0]["healthPath"] = path
    assert read(found, engine()).gates[0].slot.check == ""
