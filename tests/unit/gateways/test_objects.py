"""Objects of a namespace's gateway, and the Services that lead to it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.gates.rollout import Rollout
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.pods.gateway_pods import GatewayPods, problems
from daybreak.gates.sleep_policy import HOLD_BOUNDS
from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.router.config import RouterConfig
from daybreak.gateways.objects import gateway
from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.platform import Platform
from daybreak.ray.quantities import whole_seconds
from tests.unit.llmservice.decide.scenes.services import service

WITHOUT = Platform(ray_image="ray", ray_cpu_image="ray-cpu", operator_namespace="daybreak-system")
PLATFORM = replace(WITHOUT, gateway_image="gateway:1", gateway_replicas=3)


def one(kind: str, objects: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the object of a kind with the gateway's name."""
    return next(
        each for each in objects if each["kind"] == kind and each["metadata"]["name"] == names.GATEWAY
    )


def test_service_account_is_first_and_deployment_is_last_object() -> None:
    kinds = [each["kind"] for each in gateway("ns", [LLM_SERVICES], PLATFORM)]
    assert kinds[0] == "ServiceAccount"
    assert kinds[-1] == "Deployment"
    assert {each["metadata"]["namespace"] for each in gateway("ns", [LLM_SERVICES], PLATFORM)} == {"ns"}


def test_network_policy_is_omitted_if_disabled() -> None:
    kinds = {each["kind"] for each in gateway("ns", [LLM_SERVICES], replace(PLATFORM, network_policy=False))}
    assert "NetworkPolicy" not in kinds
    assert "Deployment" in kinds


def test_egress_of_gateway_is_limited_to_its_needs() -> None:
    spec = one("NetworkPolicy", gateway("ns", [LLM_SERVICES], replace(PLATFORM, api_server_ports=(7443,))))[
        "spec"
    ]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    models, servers, dns, api_server = spec["egress"]
    assert servers["to"][0]["podSelector"]["matchLabels"][names.COMPONENT_LABEL] == names.SERVER_COMPONENT
    assert models == {
        "to": [
            {"podSelector": {"matchExpressions": [{"key": "daybreak.dev/owner-name", "operator": "Exists"}]}}
        ],
        "ports": [{"protocol": "TCP", "port": 8000}, {"protocol": "TCP", "port": 8100}],
    }
    assert dns == {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}
    assert api_server == {"ports": [{"protocol": "TCP", "port": 7443}]}
    # Hosts outside of the cluster have no address that is known: any but a node's own, these ports.
    wide = one("NetworkPolicy", gateway("ns", [LLM_SERVICES], PLATFORM, external_ports=[8443, 443]))["spec"]
    assert len(wide["egress"]) == len(spec["egress"]) + 1
    assert wide["egress"][-1] == {
        "to": [
            {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}},
            {"ipBlock": {"cidr": "::/0", "except": ["fe80::/10"]}},
        ],
        "ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 8443}],
    }
    spec = one("NetworkPolicy", gateway("ns", [LLM_SERVICES], replace(PLATFORM, gateway_egress=False)))[
        "spec"
    ]
    assert (spec["policyTypes"], "egress" in spec) == (["Ingress"], False)


def test_deployment_selects_its_pods_and_keeps_all_during_rollout() -> None:
    spec = one("Deployment", gateway("ns", [LLM_SERVICES], PLATFORM))["spec"]
    assert spec["replicas"] == 3
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    pod = spec["template"]["spec"]
    haproxy, agent = pod["containers"]
    assert (haproxy["args"], agent["args"]) == (["haproxy"], ["agent"])
    assert {haproxy["image"], agent["image"]} == {"gateway:1"}
    assert haproxy["env"] == agent["env"]
    environment = {each["name"]: each.get("value") for each in agent["env"]}
    drain = int(environment["GATEWAY_DRAIN_SECONDS"] or 0)
    assert pod["terminationGracePeriodSeconds"] > drain
    longest_hold, longest_stream = HOLD_BOUNDS[1], GatewayConfig(Path()).stream_timeout
    assert GatewayConfig(Path()).hard_stop >= drain >= longest_hold + longest_stream
    assert longest_stream == RouterConfig(Path()).stream_timeout
    assert longest_stream >= whole_seconds(Rollout().drain_timeout)
    first, last = names.GATEWAY_PORTS
    assert int(environment["GATEWAY_SLOTS"] or 0) == last - first + 1


def pod_of(platform: Platform, **more: Any) -> dict[str, Any]:
    """Return the gateway's pod spec."""
    found = one("Deployment", gateway("ns", [LLM_SERVICES], platform, **more))
    return found["spec"]["template"]["spec"]  # type: ignore[no-any-return]


def test_containers_have_different_users_and_one_group() -> None:
    pod = pod_of(PLATFORM)
    named = pod["securityContext"]
    assert (named["runAsUser"], named["runAsGroup"], named["fsGroup"]) == (65532, 65532, 65532)
    haproxy, agent = (each["securityContext"] for each in pod["containers"])
    assert "runAsUser" not in haproxy
    assert agent["runAsUser"] not in (0, named["runAsUser"])
    assert "runAsGroup" not in agent


def test_user_ids_are_unset_if_platform_assigns_users() -> None:
    pod = pod_of(replace(PLATFORM, assigned_users=True))
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert not any("runAsUser" in each["securityContext"] for each in pod["containers"])


@pytest.mark.parametrize("assigned", [False, True])
def test_haproxy_container_has_no_secrets(assigned: bool) -> None:
    platform = replace(PLATFORM, gateway_tokens=True, assigned_users=assigned)
    pod = pod_of(platform, secrets={"team-keys"})
    assert pod["automountServiceAccountToken"] is False
    haproxy, agent = pod["containers"]
    assert [each["name"] for each in haproxy["volumeMounts"]] == ["run"]
    assert not any("secret" in str(each).lower() for each in haproxy["env"])
    assert "envFrom" not in haproxy
    # All of it is the agent's, and nothing that is the agent's lies in what they share.
    kinds = {
        each["name"]: sorted(each.keys() - {"name"})
        for each in pod["volumes"]
        if each["name"] in {mount["name"] for mount in agent["volumeMounts"]}
    }
    assert len(kinds) == len(pod["volumes"]) == 5
    assert kinds.pop("run") == ["emptyDir"]
    assert sorted(kinds.values()) == [["projected"], ["projected"], ["secret"], ["secret"]]


def test_template_cannot_mount_agent_volumes_in_haproxy_container() -> None:
    own = [each["name"] for each in pod_of(replace(PLATFORM, gateway_tokens=True))["volumes"]]
    for name in own:
        if name in ("run", "token"):
            continue
        mount = {"name": name, "mountPath": "/stolen"}
        spec = {"containers": [{"name": "gateway", "volumeMounts": [mount]}]}
        pods = GatewayPods.model_validate({"podTemplate": {"spec": spec}})
        assert f"the pod has no volume {name}" in " ".join(problems(pods))


def test_sidecar_with_name_of_agent_container_is_rejected() -> None:
    spec = {"containers": [{"name": "agent", "image": "r.example/agent:1"}]}
    pods = GatewayPods.model_validate({"podTemplate": {"spec": spec}})
    [message] = problems(pods)
    assert message == (
        "gateway.podTemplate.spec.containers[0].name: the pod has a container agent already; use another name"
    )


def test_role_of_gateway_is_read_only_and_excludes_secrets() -> None:
    rules = one("Role", gateway("ns", [LLM_SERVICES], PLATFORM, routes=[LLM_ROUTES]))["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert "secrets" not in {resource for rule in rules for resource in rule["resources"]}


@pytest.mark.parametrize("secrets", [{"b", "a"}, ["a", "b"]])
def test_order_of_secrets_does_not_change_objects(secrets: Any) -> None:
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


def test_network_policy_admits_only_gateway_operator_and_kuberay() -> None:
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
def test_replica_port_admits_only_gateway_and_operator_with_direct_ingress(direct: bool) -> None:
    svc = service(runtime={"directIngress": direct})
    policy = next(each for each in desired(svc, PLATFORM, None) if each["kind"] == "NetworkPolicy")
    open_to = [
        rule.get("from")
        for rule in policy["spec"]["ingress"]
        if any(port["port"] == 8100 for port in rule.get("ports", ()))
    ]
    from_gateway = {"podSelector": {"matchLabels": names.gateway_selector()}}
    from_operator = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "daybreak-system"}},
        "podSelector": {
            "matchLabels": {
                "app.kubernetes.io/component": "operator",
                "app.kubernetes.io/part-of": "daybreak",
            }
        },
    }
    assert open_to == ([[from_gateway, from_operator]] if direct else [])


def test_keys_in_shared_secret_do_not_change_deployment() -> None:
    with_keys = gateway("ns", [LLM_SERVICES], PLATFORM, {names.SHARED_KEYS})
    assert with_keys == gateway("ns", [LLM_SERVICES], PLATFORM)
    [deployment] = [each for each in with_keys if each["kind"] == "Deployment"]
    [volume] = [each for each in deployment["spec"]["template"]["spec"]["volumes"] if "secret" in each]
    assert volume["secret"] == {"secretName": names.SHARED_KEYS, "optional": True}
    _, agent = deployment["spec"]["template"]["spec"]["containers"]
    mounts = {each["mountPath"] for each in agent["volumeMounts"] if each["name"] == volume["name"]}
    assert mounts == {f"{names.GATEWAY_KEYS_FOLDER}/{names.SHARED_KEYS}"}
