"""Fields that a message names if a namespace's policy rejects pods."""

import pytest

from daybreak.problems.pod_refusals import OF_MODELS, PodFields, fix, ray_fix, rejects

QUOTA = 'pods "chat-aaaaa-head" is forbidden: failed quota: team: must specify '
CACHE = {"fill": PodFields("spec.models[].cache.podTemplate", "fill")}
GATEWAY = {
    "gateway": PodFields("", "gateway", resources="resources", owner="ConfigMap g"),
    "agent": PodFields("", "agent", resources="agentResources", owner="ConfigMap g"),
}
OF_HEAD = "resources.limits.cpu of container ray in spec.runtime.head.podTemplate"
OF_WORKER = "resources.limits.cpu of container ray in spec.models[].podTemplate"


@pytest.mark.parametrize(
    ("message", "report"),
    [
        (f"{QUOTA}limits.cpu for: ray-head", f"set {OF_HEAD}"),
        (
            f"{QUOTA}limits.cpu for: autoscaler,ray-head",
            "set resources.limits.cpu of container autoscaler in spec.runtime.head.podTemplate; "
            f"set {OF_HEAD}",
        ),
        (
            f"{QUOTA}limits.cpu for: ray-worker; limits.memory for: ray-worker",
            f"set {OF_WORKER}; set spec.models[].resources.memory",
        ),
        (f"{QUOTA}requests.cpu for: ray-worker", "set spec.models[].resources.cpu"),
        (f"{QUOTA}limits.cpu for: logs", "set resources.limits.cpu of container logs"),
        (
            f"{QUOTA}limits.cpu",
            f"set {OF_HEAD}; set resources.limits.cpu of container autoscaler in "
            "spec.runtime.head.podTemplate",
        ),
        (
            'Pod "chat-aaaaa-head" is invalid: spec.containers[0].resources.requests: Invalid value: "300m": '
            "must be less than or equal to cpu limit of 200m",
            f"raise {OF_HEAD}, or lower spec.runtime.head.resources.cpu",
        ),
        (
            'Pod "chat-aaaaa-head" is invalid: spec.containers[1].resources.requests: Invalid value: '
            '"512Mi": must be less than or equal to memory limit of 256Mi',
            "raise resources.limits.memory of container autoscaler in spec.runtime.head.podTemplate, or "
            "lower resources.requests.memory of container autoscaler in spec.runtime.head.podTemplate",
        ),
        (
            'Pod "chat-aaaaa-m-worker-bbbbb" is invalid: spec.containers[0].resources.requests: Invalid '
            'value: "300m": must be less than or equal to cpu limit of 200m',
            f"raise {OF_WORKER}, or lower spec.models[].resources.cpu",
        ),
        (
            "must be less than or equal to cpu limit of 200m",
            f"raise {OF_HEAD}, or lower spec.runtime.head.resources.cpu; "
            f"raise {OF_WORKER}, or lower spec.models[].resources.cpu",
        ),
        (
            'pods "chat-aaaaa-m-worker-bbbbb" is forbidden: maximum memory usage per Container is 1Gi, but '
            "limit is 4Gi",
            "lower spec.models[].resources.memory",
        ),
        (
            'pods "chat-aaaaa-head" is forbidden: minimum cpu usage per Container is 1, but request is 500m',
            f"raise {OF_HEAD}",
        ),
        (
            'pods "chat-aaaaa-head" is forbidden: cpu max limit to request ratio per Container is 2, but '
            "provided ratio is 4.000000",
            f"lower {OF_HEAD}, or raise spec.runtime.head.resources.cpu",
        ),
        (
            'pods "chat-aaaaa-head" is forbidden: exceeded quota: team, requested: limits.cpu=2, used: '
            "limits.cpu=23, limited: limits.cpu=24",
            "lower spec.runtime.head.resources, or raise the quota",
        ),
        (
            'pods "chat-aaaaa-head" is forbidden: violates PodSecurity "restricted:latest": unrestricted '
            "capabilities",
            "set securityContext in spec.runtime.head.podTemplate, or relax the namespace's level",
        ),
        ("context deadline exceeded", ""),
        ("", ""),
    ],
)
def test_ray_fix_names_fields_for_policy_messages_and_is_empty_otherwise(message: str, report: str) -> None:
    assert ray_fix(message, OF_MODELS) == report


def test_cache_fix_names_field_in_cache_pod_template() -> None:
    message = 'pods "cached-aaaaa-" is forbidden: failed quota: team: must specify limits.cpu for: fill'
    assert (
        fix(message, CACHE) == "set resources.limits.cpu of container fill in spec.models[].cache.podTemplate"
    )


def test_gateway_fix_names_fields_of_configmap() -> None:
    message = "failed quota: team: must specify limits.cpu for: agent,gateway; limits.memory for: agent"
    assert fix(message, GATEWAY) == (
        "set agentResources.limits.cpu of ConfigMap g; set resources.limits.cpu of ConfigMap g; "
        "set agentResources.limits.memory of ConfigMap g"
    )


def test_fix_names_container_at_the_index_in_the_message() -> None:
    message = "spec.containers[1].resources.requests: must be less than or equal to memory limit of 64Mi"
    assert fix(message, GATEWAY) == (
        "raise agentResources.limits.memory of ConfigMap g, or lower agentResources.requests.memory of "
        "ConfigMap g"
    )


@pytest.mark.parametrize(
    ("message", "lasts"), [("pods is forbidden: quota", True), ("context deadline exceeded", False)]
)
def test_rejects_is_true_for_forbidden_pods_and_false_for_timeout(message: str, lasts: bool) -> None:
    assert rejects(message) is lasts
