"""The complete set of desired objects, their owners, and the references between them."""

import dataclasses
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.llmservice.definition import NAME_LIMIT
from daybreak.kinds.llmservice.objects.desired import desired, group_bounds
from tests.unit.ray.services import PLATFORM, model, service


def by_kind(svc: Any, active_cluster: str | None = None, platform: Any = PLATFORM) -> dict[str, Any]:
    """Return the objects of a service by kind."""
    return {manifest["kind"]: manifest for manifest in desired(svc, platform, active_cluster)}


def test_dependencies_of_pods_come_before_ray_service() -> None:
    assert list(by_kind(service())) == [
        "ServiceAccount",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "RayService",
    ]


def test_every_object_belongs_to_the_service() -> None:
    for manifest in desired(service(), PLATFORM, None):
        metadata = manifest["metadata"]
        assert metadata["namespace"] == "team"
        assert metadata["labels"]["daybreak.dev/owner-name"] == "llama"
        [owner] = metadata["ownerReferences"]
        assert owner == {
            "apiVersion": "daybreak.dev/v1alpha1",
            "kind": "LLMService",
            "name": "llama",
            "uid": "a-uid",
            "controller": True,
            "blockOwnerDeletion": True,
        }


def test_objects_lack_label_that_kuberay_uses_for_deletion() -> None:
    assert "originated-from" not in str(desired(service(), PLATFORM, "llama-abcde"))


def test_no_service_account_is_created_if_spec_names_an_account() -> None:
    assert "ServiceAccount" not in by_kind(service(runtime={"serviceAccountName": "identity"}))


def test_service_account_mounts_no_token_and_fits_kuberay_name_limit() -> None:
    longest = "a" * NAME_LIMIT
    account = by_kind(service(name=longest))["ServiceAccount"]
    assert account["automountServiceAccountToken"] is False
    # KubeRay truncates the name to its last 50 characters; the head would then name a missing account.
    assert len(account["metadata"]["name"]) <= 50
    group = by_kind(service(name=longest))["RayService"]["spec"]["rayClusterConfig"]["headGroupSpec"]
    assert group["template"]["spec"]["serviceAccountName"] == account["metadata"]["name"]


def test_the_front_service_follows_the_active_cluster() -> None:
    front = by_kind(service(), "llama-abcde")["Service"]
    assert front["metadata"]["name"] == "llama"
    assert front["spec"]["selector"] == {"ray.io/cluster": "llama-abcde", "ray.io/serve": "true"}
    [port] = front["spec"]["ports"]
    assert (port["name"], port["port"], port["targetPort"]) == ("http", 80, 8000)


def test_without_a_cluster_the_front_service_selects_no_pod() -> None:
    selector = by_kind(service())["Service"]["spec"]["selector"]
    assert selector["ray.io/cluster"] == ""


def test_only_front_service_depends_on_active_cluster() -> None:
    one, other = by_kind(service(), "llama-aaaaa"), by_kind(service(), "llama-bbbbb")
    assert {kind for kind in one if one[kind] != other[kind]} == {"Service"}


def test_ray_ports_are_open_only_to_own_pods_and_kuberay() -> None:
    spec = by_kind(service())["NetworkPolicy"]["spec"]
    own = {"matchLabels": {"daybreak.dev/owner-kind": "LLMService", "daybreak.dev/owner-name": "llama"}}
    assert spec["podSelector"] == own
    assert spec["policyTypes"] == ["Ingress"]
    [among, kuberay, everybody] = spec["ingress"]
    assert among == {"from": [{"podSelector": own}]}
    assert [port["port"] for port in kuberay["ports"]] == [8265, 8000]
    assert sorted(port["port"] for port in everybody["ports"]) == [8000, 8080]
    assert "from" not in everybody


def test_network_policy_selects_kuberay_by_namespace_and_labels() -> None:
    def peers(platform: Any) -> Any:
        policy = by_kind(service(), platform=platform)["NetworkPolicy"]
        return policy["spec"]["ingress"][1]["from"]

    [kuberay] = peers(PLATFORM)
    assert kuberay == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kuberay-system"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/component": "kuberay-operator"}},
    }
    [kuberay] = peers(dataclasses.replace(PLATFORM, kuberay_namespace="ray-system"))
    assert kuberay["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "ray-system"}}


def test_no_network_policy_peer_has_empty_namespace_selector() -> None:
    for gateway in ("", "gateway:1"):
        platform = dataclasses.replace(PLATFORM, gateway_image=gateway)
        for rule in by_kind(service(), platform=platform)["NetworkPolicy"]["spec"]["ingress"]:
            for peer in rule.get("from", []):
                assert peer.get("namespaceSelector", {"own": "namespace"}), (
                    "an empty selector is every namespace"
                )


def test_ray_egress_is_unrestricted_unless_platform_sets_rules() -> None:
    spec = by_kind(service())["NetworkPolicy"]["spec"]
    assert (spec["policyTypes"], "egress" in spec) == (["Ingress"], False)
    rule = {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}
    platform = dataclasses.replace(PLATFORM, ray_egress=(rule,), api_server_ports=(7443,))
    spec = by_kind(service(), platform=platform)["NetworkPolicy"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    own, dns, api_server, last = spec["egress"]
    assert own == {
        "to": [
            {
                "podSelector": {
                    "matchLabels": {
                        "daybreak.dev/owner-kind": "LLMService",
                        "daybreak.dev/owner-name": "llama",
                    }
                }
            }
        ]
    }
    assert {port["port"] for port in dns["ports"]} == {53}
    assert api_server == {"ports": [{"protocol": "TCP", "port": 7443}]}
    assert last == rule


def test_network_policy_is_omitted_if_disabled() -> None:
    assert "NetworkPolicy" not in by_kind(
        service(), platform=dataclasses.replace(PLATFORM, network_policy=False)
    )


@pytest.mark.parametrize(
    ("models", "available"),
    [
        ([model()], 1),
        ([model(replicas={"min": 3}), model(name="n", replicas={"min": 0})], 4),
        ([model(parallelism={"pipeline": 4})], 4),
        ([model(parallelism={"pipeline": 4}, replicas={"min": 2}), model(name="n")], 9),
    ],
)
def test_disruption_budget_allows_one_missing_pod_of_minimum(models: list[Any], available: int) -> None:
    budget = by_kind(service(*models))["PodDisruptionBudget"]["spec"]
    assert budget == {
        "minAvailable": available,
        "selector": {
            "matchLabels": {"daybreak.dev/owner-kind": "LLMService", "daybreak.dev/owner-name": "llama"},
            "matchExpressions": [{"key": "ray.io/node-type", "operator": "Exists"}],
        },
    }


def test_pipeline_across_nodes_gets_own_readiness_probe() -> None:
    """KubeRay's own probe requires a Serve proxy, which runs only with the first stage."""

    def probe(found: Any) -> Any:
        [group] = by_kind(service(found))["RayService"]["spec"]["rayClusterConfig"]["workerGroupSpecs"]
        return group["template"]["spec"]["containers"][0].get("readinessProbe")

    assert probe(model()) is None
    assert probe(model(parallelism={"pipeline": 2}, placement="STRICT_PACK")) is None
    assert probe(model(parallelism={"pipeline": 2}))["httpGet"] == {"path": "/api/healthz", "port": 52365}


def test_front_service_selects_head_for_pipeline_without_gateway() -> None:
    """A ready pod without a Serve proxy would refuse requests."""
    front = by_kind(service(model(parallelism={"pipeline": 2})), "llama-abcde")["Service"]
    assert front["spec"]["selector"]["ray.io/node-type"] == "head"


def test_group_bounds_match_worker_groups() -> None:
    svc = service(
        model(name="a", replicas={"min": 0, "max": 4}),
        model(name="B", parallelism={"tensor": 2, "pipeline": 2}, replicas={"min": 1, "max": 3}),
    )
    assert group_bounds(svc) == {"a": (1, 4), names.worker_group("B"): (2, 6)}
    groups = by_kind(svc)["RayService"]["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert group_bounds(svc) == {
        group["groupName"]: (group["minReplicas"], group["maxReplicas"]) for group in groups
    }


def test_replicas_of_service_set_bounds_of_every_group() -> None:
    svc = service(model(name="a"), model(name="b", parallelism={"pipeline": 2}), replicas=3)
    assert group_bounds(svc) == {"a": (3, 3), "b": (6, 6)}


def test_a_model_that_sleeps_has_no_pod_and_the_others_keep_theirs() -> None:
    svc = service(model(name="a"), model(name="b", replicas={"min": 2, "max": 4}))
    assert group_bounds(svc, {"b"}) == {"a": (1, 1), "b": (0, 0)}
    objects = {each["kind"]: each for each in desired(svc, PLATFORM, None, given_back={"b"})}
    groups = objects["RayService"]["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert [(group["replicas"], group["minReplicas"]) for group in groups] == [(1, 1), (0, 0)]
    assert objects["PodDisruptionBudget"]["spec"]["minAvailable"] == 1


def test_awake_service_scaled_to_zero_has_one_replica() -> None:
    assert group_bounds(service(replicas=0)) == {"m": (1, 1)}
