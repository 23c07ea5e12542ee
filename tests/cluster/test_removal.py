"""Removing Daybreak from a cluster, with the real kubectl and helm; the test plays the operator."""

import json
import threading
import time
from collections.abc import Iterator

import pytest

from cluster import ClusterError, ControlPlane, paths
from cluster.tools.report import Report
from quickstart import removal
from quickstart.target import Target

pytestmark = pytest.mark.xdist_group("control-plane")

CRDS = paths.REPOSITORY / "charts" / "daybreak" / "files" / "crds"
SERVICE = {
    "apiVersion": "daybreak.dev/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "other", "namespace": "default"},
    "spec": {"models": [{"name": "m", "source": "hf://a/b"}]},
}
GATEWAY_LABELS = dict([removal.GATEWAY_LABEL.split("=")])
GATEWAY = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "daybreak-gateway", "namespace": "default", "labels": GATEWAY_LABELS},
    "spec": {
        "selector": {"matchLabels": GATEWAY_LABELS},
        "template": {
            "metadata": {"labels": GATEWAY_LABELS},
            "spec": {"containers": [{"name": "gateway", "image": "none"}]},
        },
    },
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("removal"), crds=[CRDS]) as running:
        yield running


@pytest.fixture
def target(plane: ControlPlane) -> Iterator[Target]:
    yield Target(plane.kubeconfig, embedded=False)
    plane.kubectl("delete", "llmservices", "--all")
    plane.kubectl("delete", "deployments", "--all")


def gateways(plane: ControlPlane) -> list[str]:
    return plane.kubectl("get", "deployments", "-o", "name").split()


def test_removal_succeeds_if_no_gateway_exists(target: Target) -> None:
    removal.remove(target, Report())


def test_removal_waits_for_gateway_deletion(plane: ControlPlane, target: Target) -> None:
    plane.apply(json.dumps(GATEWAY))

    def operator() -> None:
        time.sleep(1)
        plane.kubectl("delete", "deployment", "daybreak-gateway")

    thread = threading.Thread(target=operator)
    thread.start()
    removal.remove(target, Report())
    assert gateways(plane) == []
    thread.join()


def test_removal_fails_with_working_command_if_gateway_remains(
    plane: ControlPlane, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "GATEWAY_SECONDS", 1)
    plane.apply(json.dumps(GATEWAY))
    with pytest.raises(ClusterError, match="timed out") as error:
        removal.remove(target, Report())
    # What it says to do is what works.
    command = str(error.value).partition("run this again: kubectl ")[2]
    target.kubectl(*command.split())
    assert gateways(plane) == []


def test_removal_keeps_gateway_of_another_service(
    plane: ControlPlane, target: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    plane.apply(json.dumps(SERVICE))
    plane.apply(json.dumps(GATEWAY))
    removal.remove(target, Report())
    assert gateways(plane) == ["deployment.apps/daybreak-gateway"]
    assert "kept: default/other: " in capsys.readouterr().out


def test_documented_wait_fails_only_while_gateway_exists(plane: ControlPlane, target: Target) -> None:
    """With and without a gateway: `kubectl wait` for nothing is no error."""
    wait = ("wait", "--for=delete", "deployment", "--all-namespaces", "-l", removal.GATEWAY_LABEL)
    plane.apply(json.dumps(SERVICE))
    target.kubectl("delete", "llm", "--all", "--all-namespaces")
    target.kubectl(*wait, "--timeout=60s")
    plane.apply(json.dumps(GATEWAY))
    with pytest.raises(ClusterError, match="timed out"):
        target.kubectl(*wait, "--timeout=1s")
