"""Settings of a gateway that its namespace may override."""

from typing import Any

import pytest

from daybreak.gateways.objects import gateway
from daybreak.gateways.settings import FILE, InvalidGatewaySettings, of_namespace
from daybreak.platform import Platform

PLATFORM = Platform(ray_image="ray", ray_cpu_image="ray-cpu", gateway_image="gateway:1", gateway_replicas=2)


def read_message(text: str, **more: str) -> dict[str, Any]:
    """Return the ConfigMap."""
    return {"metadata": {"name": "daybreak-gateway"}, "data": {FILE: text, **more}}


def deployment(platform: Platform) -> dict[str, Any]:
    """Return the gateway's Deployment."""
    return gateway("ns", [], platform)[-1]["spec"]  # type: ignore[no-any-return]


def test_platform_is_unchanged_if_namespace_sets_nothing() -> None:
    for manifest in (None, {"data": None}, read_message(""), read_message("{}")):
        assert of_namespace(PLATFORM, manifest) == PLATFORM


def test_namespace_settings_override_installation_settings() -> None:
    text = """
        replicas: 5
        resources: {requests: {cpu: "1", memory: 2Gi}, limits: {memory: 4Gi}}
        agentResources: {limits: {memory: 2Gi}}
        nodeSelector: {pool: edge}
        tolerations: [{key: edge, operator: Exists}]
        affinity: {nodeAffinity: {}}
        priorityClassName: high
        topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
    """
    found = deployment(of_namespace(PLATFORM, read_message(text)))
    pod = found["template"]["spec"]
    assert found["replicas"] == 5
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "1", "memory": "2Gi"},
        "limits": {"memory": "4Gi"},
    }
    assert pod["containers"][1]["resources"] == {"limits": {"memory": "2Gi"}}
    assert (pod["nodeSelector"], pod["priorityClassName"]) == ({"pool": "edge"}, "high")
    assert pod["tolerations"] == [{"key": "edge", "operator": "Exists"}]
    assert pod["topologySpreadConstraints"][0]["topologyKey"] == "zone"


def test_omitted_setting_keeps_installation_value() -> None:
    placed = PLATFORM.gateway_pods.model_copy(
        update={"priority_class_name": "low", "node_selector": {"a": "b"}}
    )
    platform = Platform(**{**vars(PLATFORM), "gateway_pods": placed})
    pod = deployment(of_namespace(platform, read_message("nodeSelector: {}")))["template"]["spec"]
    assert pod["priorityClassName"] == "low"
    assert not pod.get("nodeSelector"), "an empty one takes the installation's away"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("replicas: 0", "gateway.replicas"),
        ("replicas: many", "gateway.replicas"),
        ("image: evil:1", "gateway.image: there is no such field"),
        ("podTemplate: {}", "gateway.podTemplate: there is no such field"),
        ("resources: {limits: {memory: much}}", "gateway.resources.limits.memory"),
        ("affinity: {nodeAffinty: {}}", "did you mean nodeAffinity"),
        ("tolerations: [{key: 3}]", "gateway.tolerations[0].key"),
        ("replicas: [", "gateway.yaml is not valid YAML in line 1"),
        ("!!python/object:os.system {}", "gateway.yaml is not valid YAML"),
        ("- replicas", "gateway"),
        ("replicas: 1 #" + "x" * 17_000, "more than 16384"),
        ("affinity: {a: &a [1], b: *a}", "gateway.yaml has an alias"),
        ("affinity: " + "[" * 4_000 + "]" * 4_000, "nested too deeply"),
    ],
)
def test_invalid_setting_is_rejected_with_its_path(text: str, words: str) -> None:
    with pytest.raises(InvalidGatewaySettings) as refused:
        of_namespace(PLATFORM, read_message(text))
    assert words in str(refused.value)


def test_other_configmap_key_is_rejected() -> None:
    with pytest.raises(InvalidGatewaySettings, match=r"values\.yaml: only the key"):
        of_namespace(PLATFORM, read_message("replicas: 3", **{"values.yaml": "replicas: 4"}))
