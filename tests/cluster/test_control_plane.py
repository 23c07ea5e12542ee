"""The control plane that other tests use: real etcd and Kubernetes, with fake nodes."""

import json
import ssl
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from cluster import ClusterError, ControlPlane, FakeNode, paths
from cluster.tools import ports
from story.objects.reader import Reader

pytestmark = pytest.mark.xdist_group("control-plane")

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.test.example"},
    "spec": {
        "group": "test.example",
        "names": {"kind": "Thing", "plural": "things"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


def pod(name: str, gpus: int, **spec: Any) -> str:
    container = {"name": "c", "image": "none", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    metadata = {"name": name, "namespace": "default"}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
    )


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("plane")
    (folder / "crd.json").write_text(json.dumps(DEFINITION))
    nodes = [FakeNode("big", gpus=8, labels={"gpu": "h100"}), FakeNode("small", gpus=2, taints=())]
    with ControlPlane(
        folder / "plane", controllers=True, scheduler=True, fake_nodes=nodes, crds=[folder / "crd.json"]
    ) as running:
        yield running


def test_crds_are_served_after_start(plane: ControlPlane) -> None:
    assert plane.kubectl("get", "things", "--all-namespaces").strip() == ""


def test_namespace_with_objects_can_be_deleted(plane: ControlPlane) -> None:
    plane.kubectl("create", "namespace", "short")
    plane.kubectl("create", "configmap", "x", "-n", "short")
    plane.kubectl("delete", "namespace", "short", timeout=60)
    assert plane.kubectl("get", "namespace", "short", "--ignore-not-found") == ""


def test_pod_is_scheduled_on_fake_node_with_enough_gpus(plane: ControlPlane) -> None:
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    plane.apply(pod("fits", 8, tolerations=tolerations))
    plane.kubectl("wait", "--for=condition=Ready", "pod/fits", "--timeout=60s")
    assert plane.kubectl("get", "pod", "fits", "-o", "jsonpath={.spec.nodeName}") == "big"


def test_pod_without_toleration_or_fitting_node_is_not_scheduled(plane: ControlPlane) -> None:
    plane.apply(pod("intolerant", 8))
    plane.kubectl("wait", "--for=condition=PodScheduled=false", "pod/intolerant", "--timeout=60s")
    path = 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}'
    message = plane.kubectl("get", "pod", "intolerant", "-o", path)
    assert "untolerated taint" in message
    assert "Insufficient nvidia.com/gpu" in message


def test_reader_returns_same_objects_as_kubectl(plane: ControlPlane) -> None:
    reader = Reader(plane.kubeconfig)
    thing = {"apiVersion": "test.example/v1", "kind": "Thing", "metadata": {"name": "one"}}
    plane.apply(json.dumps({**thing, "metadata": {"name": "one", "labels": {"a": "b"}}}))
    plane.kubectl("create", "configmap", "seen")
    kinds = "configmaps,serviceaccounts,things,deployments,pods,pvc,events,nodes"
    for which in ((), ("-l", "a=b")):
        printed = plane.kubectl("get", "-n", "default", kinds, *which, "-o", "name").split()
        assert sorted(reader.names("default", kinds, *which)) == sorted(printed)
    for words in (["things", "one"], ["cm", "seen"], ["node", "big"]):
        observed = json.loads(plane.kubectl("get", "-n", "default", *words, "-o", "json"))
        found = reader.get("default", *words)
        assert found is not None
        assert found["metadata"]["uid"] == observed["metadata"]["uid"]
    found = reader.get("default", "thing", "-l", "a=b")
    assert found is not None
    assert [each["metadata"]["name"] for each in found["items"]] == ["one"]
    assert reader.get("default", "thing", "two") is None
    with pytest.raises(ClusterError, match="nothings"):
        reader.names("default", "nothings")


def test_restarted_api_server_keeps_address_and_objects(plane: ControlPlane) -> None:
    plane.kubectl("create", "configmap", "survivor")
    server = plane.server
    plane.stop_apiserver()
    assert plane.apiserver is None
    with pytest.raises(ClusterError, match="refused"):
        plane.kubectl("get", "namespaces")
    plane.start_apiserver()
    assert plane.server == server
    assert plane.kubectl("get", "configmap", "survivor", "-o", "name") == "configmap/survivor\n"


def test_a_user_has_only_the_rights_that_were_given(plane: ControlPlane, tmp_path: Path) -> None:
    plane.write_kubeconfig(tmp_path / "kubeconfig", "somebody", ["team"])
    name = ["--kubeconfig", str(tmp_path / "kubeconfig")]
    with pytest.raises(ClusterError, match="somebody"):
        plane.kubectl("get", "secrets", *name)
    plane.kubectl("create", "rolebinding", "team", "--clusterrole=view", "--group=team")
    deadline = time.monotonic() + 30
    while True:
        try:
            plane.kubectl("get", "configmaps", *name)
            break
        except ClusterError:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_second_control_plane_runs_beside_first_and_leaves_nothing(
    plane: ControlPlane, tmp_path: Path
) -> None:
    other = ControlPlane(tmp_path / "other")
    with other:
        assert other.server != plane.server
        assert "h100" not in other.kubectl("get", "nodes", "--show-labels")
        assert other.directory in ports.holders(paths.PORTS)
        server = other.server
    assert not other.directory.exists()
    assert other.directory not in ports.holders(paths.PORTS)
    anybody = ssl._create_unverified_context()  # noqa: S323 -- nobody must answer at all
    with pytest.raises(URLError, match=r"refused|reset"):
        urllib.request.urlopen(server, context=anybody, timeout=5)  # noqa: S310 -- an https address


def test_control_plane_restarts_with_its_objects(tmp_path: Path) -> None:
    first = ControlPlane(tmp_path / "plane")
    try:
        first.start().kubectl("create", "configmap", "kept")
        first.stop()
        assert first.processes.recorded() == []
        again = ControlPlane(tmp_path / "plane").start()
        assert again.server == first.server
        assert again.kubectl("get", "configmap", "kept", "-o", "name") == "configmap/kept\n"
    finally:
        first.remove()


def test_removal_keeps_foreign_files_in_directory(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    plane = ControlPlane(tmp_path)
    plane.prepare()
    plane.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
