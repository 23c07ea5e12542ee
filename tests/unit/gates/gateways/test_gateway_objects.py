"""Objects of a namespace's gateway, and what leads to it."""

from dataclasses import replace
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.llmroute.definition import LLM_ROUTES
from daybreak.api.llmservice.definition import LLM_SERVICES
from daybreak.gates.gateways.gateway_objects import gateway
from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.platform import Platform
from tests.unit.llmservice.decide.scenes.services import service

WITHOUT = Platform(ray_image="ray", ray_cpu_image="ray-cpu", operator_namespace="daybreak-system")
PLATFORM = replace(WITHOUT, gateway_image="gateway:1", gateway_replicas=3)


def one(kind: str, objects: list[dict[str, Any]]) -> dict[str, Any]:
    """The object of a kind whose name is the gateway's."""
    return next(
        each for each in objects if each["kind"] == kind and each["metadata"]["name"] == names.GATEWAY
    )


def test_what_its_pods_need_comes_before_them() -> None:
    kinds = [each["kind"] for each in gateway("ns", [LLM_SERVICES], PLATFORM)]
    assert kinds[0] == "ServiceAccount"
    assert kinds[-1] == "Deployment"
    assert {each["metadata"]["namespace"] for each in gateway("ns", [LLM_SERVICES], PLATFORM)} == {"ns"}


def test_the_network_policy_can_be_left_out() -> None:
    kinds = {each["kind"] for each in gateway("ns", [LLM_SERVICES], replace(PLATFORM, network_policy=False))}
    assert "NetworkPolicy" not in kinds
    assert "Deployment" in kinds


def test_a_gateway_reaches_what_it_needs_and_nothing_else() -> None:
    spec = one("NetworkPolicy", gateway("ns", [LLM_SERVICES], replace(PLATFORM, api_server_ports=(7443,))))[
        "spec"
    ]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    models, servers, dns, api_server = spec["egress"]
    assert servers["to"][0]["podSelector"]["matchLabels"][names.COMPONENT_LABEL] == names.SERVER_COMPONENT
    assert models == {
        "to": [
            {"podSelector": {"matchExpressions": [{"key": "daybreak.dev/service", "operator": "Exists"}]}}
        ],
        "ports": [{"protocol": "TCP", "port": 8000}, {"protocol": "TCP", "port": 8100}],
    }
    assert dns == {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}
    assert api_server == {"ports": [{"protocol": "TCP", "port": 7443}]}
    spec = one("NetworkPolicy", gateway("ns", [LLM_SERVICES], replace(PLATFORM, gateway_egress=False)))[
        "spec"
    ]
    assert (spec["policyTypes"], "egress" in spec) == (["Ingress"], False)


def test_the_deployment_selects_its_own_pods_and_never_has_fewer() -> None:
    spec = one("Deployment", gateway("ns", [LLM_SERVICES], PLATFORM))["spec"]
    assert spec["replicas"] == 3
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert container["image"] == "gateway:1"
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert pod["terminationGracePeriodSeconds"] > int(environment["GATEWAY_DRAIN_SECONDS"] or 0)
    first, last = names.GATEWAY_PORTS
    assert int(environment["GATEWAY_SLOTS"] or 0) == last - first + 1


def test_users_are_left_to_a_platform_that_assigns_them() -> None:
    named = one("Deployment", gateway("ns", [LLM_SERVICES], PLATFORM))["spec"]["template"]["spec"][
        "securityContext"
    ]
    assert (named["runAsUser"], named["runAsGroup"], named["fsGroup"]) == (65532, 65532, 65532)
    objects = gateway("ns", [LLM_SERVICES], replace(PLATFORM, assigned_users=True))
    left = one("Deployment", objects)["spec"]["template"]["spec"]["securityContext"]
    assert left == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_it_reads_and_writes_nothing() -> None:
    rules = one("Role", gateway("ns", [LLM_SERVICES], PLATFORM, routes=[LLM_ROUTES]))["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert "secrets" not in {resource for rule in rules for resource in rule["resources"]}


@pytest.mark.parametrize("secrets", [{"b", "a"}, ["a", "b"]])
def test_the_order_of_secrets_changes_nothing(secrets: Any) -> None:
    assert gateway("ns", [LLM_SERVICES], PLATFORM, secrets) == gateway(
        "ns", [LLM_SERVICES], PLATFORM, ["b", "a"]
    )
    assert gateway("ns", [LLM_SERVICES], PLATFORM, secrets) != gateway("ns", [LLM_SERVICES], PLATFORM)


def test_the_front_service_leads_to_the_gateway() -> None:
    found = next(each for each in desired(service(), PLATFORM, "chat-a", 20007) if each["kind"] == "Service")
    assert found["spec"]["selector"] == names.gateway_selector()
    assert [port["targetPort"] for port in found["spec"]["ports"]] == [20007]
    direct = next(each for each in desired(service(), WITHOUT, "chat-a") if each["kind"] == "Service")
    assert direct["spec"]["selector"]["ray.io/cluster"] == "chat-a"
    assert [port["targetPort"] for port in direct["spec"]["ports"]] == [8000]


def test_behind_a_gateway_nobody_else_reaches_the_models() -> None:
    def askers(platform: Platform) -> list[Any]:
        policy = next(each for each in desired(service(), platform, None) if each["kind"] == "NetworkPolicy")
        return [
            rule.get("from")
            for rule in policy["spec"]["ingress"]
            if any(port["port"] == 8000 for port in rule.get("ports", ()))
        ]

    [[from_kuberay], from_anywhere] = askers(WITHOUT)
    assert from_anywhere is None
    [[also_from_kuberay], [from_gateway, from_operator]] = askers(PLATFORM)
    assert from_kuberay == also_from_kuberay
    assert from_kuberay["podSelector"]["matchLabels"] == {"app.kubernetes.io/component": "kuberay-operator"}
    assert from_gateway == {"podSelector": {"matchLabels": names.gateway_selector()}}
    assert from_operator["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "daybreak-system"
    }


@pytest.mark.parametrize("direct", [True, False])
def test_the_replicas_own_port_is_for_the_gateway_and_the_operator(direct: bool) -> None:
    svc = service(runtime={"directIngress": direct})
    policy = next(each for each in desired(svc, PLATFORM, None) if each["kind"] == "NetworkPolicy")
    open_to = [
        rule.get("from")
        for rule in policy["spec"]["ingress"]
        if any(port["port"] == 8100 for port in rule.get("ports", ()))
    ]
    assert [len(peers) for peers in open_to] == ([2] if direct else [])


def test_keys_in_the_shared_secret_bring_no_new_pods() -> None:
    with_keys = gateway("ns", [LLM_SERVICES], PLATFORM, {names.SHARED_KEYS})
    assert with_keys == gateway("ns", [LLM_SERVICES], PLATFORM)
    [deployment] = [each for each in with_keys if each["kind"] == "Deployment"]
    [volume] = [each for each in deployment["spec"]["template"]["spec"]["volumes"] if "secret" in each]
    assert volume["secret"] == {"secretName": names.SHARED_KEYS, "optional": True}
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    mounts = {each["mountPath"] for each in container["volumeMounts"] if each["name"] == volume["name"]}
    assert mounts == {f"{names.GATEWAY_KEYS_FOLDER}/{names.SHARED_KEYS}"}
