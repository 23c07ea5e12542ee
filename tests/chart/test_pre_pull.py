"""The DaemonSet that pulls images and weights ahead."""

from typing import Any

from daybreak import versions
from tests.chart.tools import Helm, Manifest, of_kind, one


def pulling(helm: Helm, *options: str) -> dict[str, Any]:
    """Return the spec of the pods that pull images ahead."""
    manifests = helm.template("--set", "prePull.enabled=true", *options)
    spec: dict[str, Any] = one(manifests, "DaemonSet")["spec"]["template"]["spec"]
    return spec


def test_pre_pull_daemon_set_is_rendered_only_if_enabled(helm: Helm, rendered: list[Manifest]) -> None:
    assert not of_kind(rendered, "DaemonSet")
    pod = pulling(helm)
    assert [container["image"] for container in pod["containers"]] == [f"daybreak-ray:{versions.DAYBREAK}"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def test_pre_pull_pod_gets_no_device_and_no_token(helm: Helm) -> None:
    pod = pulling(helm, "--set", "prePull.images[0]=r.example/x:1")
    assert pod["automountServiceAccountToken"] is False
    assert len(pod["containers"]) == 2
    for container in pod["containers"]:
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]


def test_pre_pull_pod_sets_no_user_if_platform_assigns_users(helm: Helm) -> None:
    assert pulling(helm)["securityContext"]["runAsUser"] == 65532
    context = pulling(helm, "--set", "platformAssignedUsers=true")["securityContext"]
    assert not {"runAsUser", "runAsGroup"} & context.keys()
    assert context["runAsNonRoot"] is True


def test_node_selector_value_replaces_default(helm: Helm) -> None:
    assert pulling(helm, "--set", "prePull.nodeSelector.pool=gpu")["nodeSelector"] == {"pool": "gpu"}


def test_weights_are_pulled_as_image_volumes(helm: Helm) -> None:
    pod = pulling(helm, "--set", "prePull.weights[0]=r.example/w:1")
    assert [volume["image"]["reference"] for volume in pod["volumes"]] == ["r.example/w:1"]
    assert pod["containers"][0]["volumeMounts"][0]["name"] == pod["volumes"][0]["name"]
