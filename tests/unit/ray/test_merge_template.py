"""A user's podTemplate, merged with Daybreak's pods."""

from dataclasses import replace
from typing import Any

import pytest

from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.pods.gateway_pods import GatewayPods
from daybreak.api.pods.pod_template import PodTemplate
from daybreak.gateways.objects import gateway
from daybreak.kinds.llmservice.objects.ray_service import ray_service
from daybreak.ray.pods.merge_template import merged
from tests.unit.ray.services import PLATFORM, model, service
from tests.unit.ray.test_pod_spec import cluster, container, environment, head, pod, worker

RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
HELPER = {"name": "helper", "image": "helper:1"}


def with_template(spec: dict[str, Any] | None = None, **model_fields: Any) -> Any:
    """Return a service with one model that has this pod template."""
    return service(model(podTemplate={"spec": spec or {}}, **model_fields))


def with_ray(**fields: Any) -> Any:
    """Return a service with one model that has these fields in its Ray container."""
    return with_template({"containers": [{"name": "ray", **fields}]})


def test_an_empty_template_changes_nothing() -> None:
    nothing: list[dict[str, Any]] = [
        {},
        {"spec": {}, "metadata": {}},
        {"spec": {"containers": [{"name": "ray"}]}},
    ]
    for empty in nothing:
        assert cluster(service(model(podTemplate=empty))) == cluster(service())
    assert cluster(service(runtime={"head": {"podTemplate": {}}})) == cluster(service())


def test_maps_are_merged_and_values_replaced() -> None:
    svc = with_template(
        {
            "securityContext": {"supplementalGroups": [44], "runAsUser": 1234},
            "enableServiceLinks": True,
            "runtimeClassName": "nvidia",
            "nodeSelector": {"rack": "a", "pool": "b"},
        },
        accelerator={"nodeSelector": {"pool": "a", "zone": "c"}},
    )
    found = pod(worker(svc))
    assert found["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1234,
        "fsGroup": 1000,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
        "supplementalGroups": [44],
    }
    assert found["enableServiceLinks"] is True
    assert found["runtimeClassName"] == "nvidia"
    assert found["nodeSelector"] == {"pool": "b", "zone": "c", "rack": "a"}


def test_template_applies_only_to_pods_of_its_own_group() -> None:
    svc = service(
        model(name="a", podTemplate={"spec": {"runtimeClassName": "nvidia"}}),
        model(name="b"),
        runtime={"head": {"podTemplate": {"spec": {"schedulerName": "volcano"}}}},
    )
    [first, second] = cluster(svc)["workerGroupSpecs"]
    assert [pod(group).get("runtimeClassName") for group in (first, second, head(svc))] == [
        "nvidia",
        None,
        None,
    ]
    assert [pod(group).get("schedulerName") for group in (first, second, head(svc))] == [
        None,
        None,
        "volcano",
    ]


@pytest.mark.parametrize("name", ["ray", "ray-worker"])
def test_ray_container_stays_first_and_keeps_its_own_fields(name: str) -> None:
    svc = with_template(
        {
            "containers": [
                HELPER,
                {"name": name, "resources": {"limits": {"rdma/hca": 1}}, "workingDir": "/work"},
            ]
        },
        parallelism={"tensor": 2},
    )
    [ray, helper] = pod(worker(svc))["containers"]
    plain = container(worker(service(model(parallelism={"tensor": 2}))))
    assert ray["name"] == "ray-worker"
    assert ray["workingDir"] == "/work"
    assert ray["resources"]["requests"] == plain["resources"]["requests"]
    assert ray["resources"]["limits"] == {**plain["resources"]["limits"], "rdma/hca": 1}
    for field in ("image", "env", "ports", "securityContext", "volumeMounts"):
        assert ray[field] == plain[field]
    assert helper["name"] == "helper"


def test_template_variable_overrides_default_and_service_variables() -> None:
    secret = {"secretKeyRef": {"name": "a", "key": "b"}}
    template = {
        "spec": {
            "containers": [
                {
                    "name": "ray",
                    "env": [
                        {"name": "OWN", "valueFrom": secret},
                        {"name": "RAY_USAGE_STATS_ENABLED", "value": "1"},
                    ],
                }
            ]
        }
    }
    svc = service(model(podTemplate=template), runtime={"env": [{"name": "OWN", "value": "x"}]})
    found = environment(worker(svc))
    assert found["OWN"] == secret
    assert found["RAY_USAGE_STATS_ENABLED"] == "1"
    assert environment(head(svc))["OWN"] == "x"


def test_template_capabilities_are_merged_with_dropped_ones() -> None:
    svc = with_ray(securityContext={"capabilities": {"add": ["IPC_LOCK"]}})
    assert container(worker(svc))["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]},
    }


@pytest.mark.parametrize("desired", [{"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN"]}}])
def test_escalation_is_not_forbidden_for_privileged_or_sys_admin(desired: dict[str, Any]) -> None:
    # Kubernetes rejects such a pod.
    assert (
        "allowPrivilegeEscalation"
        not in container(worker(with_ray(securityContext=desired)))["securityContext"]
    )


def test_additional_containers_are_restricted_without_own_security_context() -> None:
    own = {"runAsUser": 5}
    spec = {
        "containers": [HELPER, {**HELPER, "name": "own", "securityContext": own}],
        "initContainers": [{**HELPER, "name": "first"}],
    }
    found = pod(worker(with_template(spec)))
    contexts = {
        each["name"]: each["securityContext"] for each in [*found["containers"], *found["initContainers"]]
    }
    assert contexts == {"ray-worker": RESTRICTED, "helper": RESTRICTED, "own": own, "first": RESTRICTED}


def test_tolerations_are_deduplicated_and_included_in_digest() -> None:
    gpu = {"key": "gpu", "operator": "Exists"}
    svc = with_template({"tolerations": [gpu, {"key": "fabric"}]}, accelerator={"tolerations": [gpu]})
    template = worker(svc)["template"]
    assert template["spec"]["tolerations"] == [gpu, {"key": "fabric"}]
    # Both places result in the same pod, and KubeRay compares only the digest.
    elsewhere = service(model(accelerator={"tolerations": [gpu, {"key": "fabric"}]}))
    assert template["metadata"] == worker(elsewhere)["template"]["metadata"]
    assert (
        template["metadata"]
        != worker(service(model(accelerator={"tolerations": [gpu]})))["template"]["metadata"]
    )


def test_template_labels_and_annotations_are_added_to_daybreaks() -> None:
    metadata = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    found = worker(service(model(podTemplate={"metadata": metadata})))["template"]["metadata"]
    assert found["labels"] == {**worker(service())["template"]["metadata"]["labels"], "team": "a"}
    assert found["annotations"] == {"note": "b"}


def test_template_mount_at_cache_path_replaces_cache_volume() -> None:
    disk = {"name": "disk", "ephemeral": {}}
    svc = with_template(
        {
            "volumes": [disk],
            "containers": [
                {"name": "ray", "volumeMounts": [{"name": "disk", "mountPath": "/var/cache/daybreak/"}]}
            ],
        }
    )
    found = pod(worker(svc))
    assert disk in found["volumes"]
    assert "daybreak-cache" not in [volume["name"] for volume in found["volumes"]]
    paths = [mount["mountPath"].rstrip("/") for mount in container(worker(svc))["volumeMounts"]]
    assert paths.count("/var/cache/daybreak") == 1


def test_host_network_pod_uses_cluster_dns_unless_template_sets_policy() -> None:
    assert pod(worker(with_template({"hostNetwork": True})))["dnsPolicy"] == "ClusterFirstWithHostNet"
    own = {"hostNetwork": True, "dnsPolicy": "Default"}
    assert pod(worker(with_template(own)))["dnsPolicy"] == "Default"
    assert "dnsPolicy" not in pod(worker(with_template({"hostNetwork": False})))


def test_runtime_volumes_are_mounted_in_workers_and_not_in_head() -> None:
    # A PVC that only one node can mount would keep either the head or the worker from starting.
    volume = {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}
    mount = {"name": "disk", "mountPath": "/disk"}
    svc = service(runtime={"volumes": [volume], "volumeMounts": [mount]})
    assert volume in pod(worker(svc))["volumes"]
    assert mount in container(worker(svc))["volumeMounts"]
    assert volume not in pod(head(svc))["volumes"]
    assert mount not in container(head(svc))["volumeMounts"]


def test_head_volumes_are_mounted_in_head_and_not_in_workers() -> None:
    volume = {"name": "ca", "configMap": {"name": "ca"}}
    mount = {"name": "ca", "mountPath": "/etc/ca"}
    svc = service(runtime={"head": {"volumes": [volume], "volumeMounts": [mount]}})
    assert volume in pod(head(svc))["volumes"]
    assert mount in container(head(svc))["volumeMounts"]
    assert volume not in pod(worker(svc))["volumes"]


def test_model_volumes_are_mounted_only_in_its_own_pods() -> None:
    volume = {"name": "own", "emptyDir": {}}
    shared = {"name": "shared", "emptyDir": {}}
    svc = service(
        model(
            name="a",
            volumes=[volume],
            volumeMounts=[{"name": "own", "mountPath": "/own"}, {"name": "shared", "mountPath": "/mine"}],
        ),
        model(name="b"),
        runtime={"volumes": [shared], "volumeMounts": [{"name": "shared", "mountPath": "/shared"}]},
    )
    [first, second] = cluster(svc)["workerGroupSpecs"]

    def mounts(group: Any) -> set[str]:
        return {mount["mountPath"] for mount in container(group)["volumeMounts"]}

    assert volume in pod(first)["volumes"]
    assert volume not in pod(second)["volumes"]
    assert {"/own", "/mine", "/shared"} <= mounts(first)
    assert mounts(second) & {"/own", "/mine", "/shared"} == {"/shared"}


def test_claimed_accelerators_count_in_ray_and_not_in_pod_requests() -> None:
    claim = {"templateName": "four-gpus", "devices": 4}
    group = worker(service(model(parallelism={"tensor": 4}, accelerator={"claim": claim})))
    assert group["resources"]["GPU"] == "4"
    assert container(group)["resources"] == {
        "requests": {"cpu": "5", "memory": "72Gi"},
        "limits": {"memory": "72Gi"},
        "claims": [{"name": "daybreak-accelerators"}],
    }
    assert pod(group)["resourceClaims"] == [
        {"name": "daybreak-accelerators", "resourceClaimTemplateName": "four-gpus"}
    ]


def test_template_claims_are_added_to_accelerator_claim() -> None:
    nic = {"name": "nic", "resourceClaimTemplateName": "nic"}
    spec = {
        "resourceClaims": [nic],
        "containers": [{"name": "ray", "resources": {"claims": [{"name": "nic"}]}}],
    }
    group = worker(with_template(spec, accelerator={"claim": {"templateName": "gpu", "devices": 1}}))
    assert [each["name"] for each in pod(group)["resourceClaims"]] == ["daybreak-accelerators", "nic"]
    assert [each["name"] for each in container(group)["resources"]["claims"]] == [
        "daybreak-accelerators",
        "nic",
    ]


def test_ray_service_has_user_labels_and_annotations_but_keeps_its_own() -> None:
    metadata = {
        "labels": {"kueue.x-k8s.io/queue-name": "a", "app.kubernetes.io/name": "other"},
        "annotations": {"note": "b", "daybreak.dev/built-with": "other"},
    }
    plain = ray_service(service(), PLATFORM)["metadata"]
    found = ray_service(service(runtime={"metadata": metadata}), PLATFORM)["metadata"]
    assert found["labels"] == {**plain["labels"], "kueue.x-k8s.io/queue-name": "a"}
    assert found["annotations"] == {"note": "b", **plain["annotations"]}
    assert plain["labels"]["app.kubernetes.io/name"] == "llmservice"
    assert list(plain["annotations"]) == ["daybreak.dev/configuration-hash", "daybreak.dev/built-with"]


def gateway_pod(**settings: Any) -> Any:
    """Return the pod template of a gateway with these settings."""
    platform = replace(PLATFORM, gateway_image="g:1", gateway_pods=GatewayPods.model_validate(settings))
    return gateway("ns", [LLM_SERVICES], platform)[-1]["spec"]["template"]


def test_gateway_settings_are_applied_to_its_pods() -> None:
    spread = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    template = gateway_pod(
        pullPolicy="Always",
        resources={"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"memory": "2Gi"}},
        nodeSelector={"pool": "small"},
        tolerations=[{"key": "small", "operator": "Exists"}],
        affinity={"nodeAffinity": {}},
        priorityClassName="high",
        topologySpreadConstraints=[spread],
    )
    found = template["spec"]
    [own, _] = found["containers"]
    assert own["imagePullPolicy"] == "Always"
    # Quantities as the API server writes them, so that the stored object equals the desired one.
    assert own["resources"] == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    assert found["nodeSelector"] == {"pool": "small"}
    assert found["tolerations"] == [{"key": "small", "operator": "Exists"}]
    assert found["affinity"] == {"nodeAffinity": {}}
    assert found["priorityClassName"] == "high"
    assert found["topologySpreadConstraints"] == [spread]


def test_gateway_template_is_merged_into_gateway_pods() -> None:
    plain = gateway_pod()
    found = gateway_pod(
        podTemplate={
            "metadata": {"annotations": {"note": "a"}},
            "spec": {
                "runtimeClassName": "gvisor",
                "containers": [{"name": "gateway", "env": [{"name": "A", "value": "b"}]}, HELPER],
            },
        }
    )
    assert found["metadata"] == {**plain["metadata"], "annotations": {"note": "a"}}
    [*own, helper] = found["spec"]["containers"]
    # The agent's container gets the variables that a template sets for HAProxy's container.
    assert own == [
        {**before, "env": [*before["env"], {"name": "A", "value": "b"}]}
        for before in plain["spec"]["containers"]
    ]
    assert helper == {**HELPER, "securityContext": RESTRICTED}
    assert found["spec"]["runtimeClassName"] == "gvisor"


def test_merge_does_not_modify_template_or_pod() -> None:
    template = PodTemplate.model_validate({"spec": {"containers": [{"name": "ray", "env": [{"name": "A"}]}]}})
    own = {
        "metadata": {},
        "spec": {"containers": [{"name": "ray-head", "env": [], "securityContext": {}}], "tolerations": []},
    }
    before = template.model_copy(deep=True)
    whole = merged(own, template, container="ray-head", alias="ray")
    whole["spec"]["containers"][0]["env"][0]["spoiled"] = True
    assert own["spec"]["containers"][0]["env"] == []
    assert template == before
