"""Allowed and rejected fields of `podTemplate`: each problem has the field's path and an alternative."""

from typing import Any

import pytest

from daybreak import versions
from daybreak.api.common import names, volume_names
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.validation import problems
from daybreak.api.pods import pod_owners, pod_schema
from daybreak.ray import ports
from tests.specs import manifest, with_runtime

TEMPLATE = "spec.models[0].podTemplate"
HEAD = "spec.runtime.head.podTemplate"
LOGS = {"name": "logs", "image": "logs:1"}


def read_message(whole: dict[str, Any]) -> tuple[str, ...]:
    """Return every problem of a manifest."""
    return problems(LLMService.from_manifest(whole))


def of_worker(template: dict[str, Any], spec: dict[str, Any] | None = None, **model: Any) -> tuple[str, ...]:
    """Return the problems of a worker's template."""
    return read_message(manifest(model={"podTemplate": template, **model}, **(spec or {})))


def of_pod(**spec: Any) -> tuple[str, ...]:
    """Return the problems of the pod in a worker's template."""
    return of_worker({"spec": spec})


def of_ray(**fields: Any) -> tuple[str, ...]:
    """Return the problems of the Ray container in a worker's template."""
    return of_pod(containers=[{"name": "ray", **fields}])


def of_head(**spec: Any) -> tuple[str, ...]:
    """Return the problems of the head's template."""
    return read_message(with_runtime(head={"podTemplate": {"spec": spec}}))


@pytest.mark.parametrize(
    ("field", "value", "instead"),
    [
        ("activeDeadlineSeconds", 5, "end the pod"),
        ("automountServiceAccountToken", True, "projected volume"),
        ("ephemeralContainers", [], "takes none"),
        ("nodeName", "node-a", "use nodeSelector or affinity"),
        ("overhead", {"cpu": 1}, "runtimeClassName"),
        ("preemptionPolicy", "Never", "priorityClassName"),
        ("priority", 5, "priorityClassName"),
        ("resources", {}, "resources of containers"),
        ("restartPolicy", "Always", "KubeRay"),
        ("serviceAccount", "mine", "spec.runtime.serviceAccountName"),
        ("serviceAccountName", "mine", "spec.runtime.serviceAccountName"),
        ("terminationGracePeriodSeconds", 5, "how long requests"),
    ],
)
def test_owned_pod_field_is_rejected_with_alternative(field: str, value: Any, instead: str) -> None:
    for found, template in ((of_pod(**{field: value}), TEMPLATE), (of_head(**{field: value}), HEAD)):
        [problem] = found
        assert problem.startswith(f"{template}.spec.{field}: Daybreak owns this field")
        assert instead in problem


@pytest.mark.parametrize(
    ("field", "value", "instead"),
    [
        ("image", "other:1", "spec.runtime.image"),
        ("imagePullPolicy", "Always", "spec.runtime.imagePullPolicy"),
        ("command", ["sh"], "KubeRay"),
        ("args", ["-c"], "KubeRay"),
        ("livenessProbe", {}, "KubeRay"),
        ("readinessProbe", {}, "KubeRay"),
        ("restartPolicy", "Never", "KubeRay"),
    ],
)
def test_owned_ray_container_field_is_rejected_with_alternative(field: str, value: Any, instead: str) -> None:
    [problem] = of_ray(**{field: value})
    assert problem.startswith(f"{TEMPLATE}.spec.containers[0].{field}: Daybreak owns this field")
    assert instead in problem


@pytest.mark.parametrize("name", ["ray", "ray-worker"])
def test_ray_container_is_recognized_by_both_names(name: str) -> None:
    container = {"name": name, "image": "other:1"}
    [problem] = of_pod(containers=[container])
    assert "spec.runtime.image" in problem


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"limits": {"nvidia.com/gpu": 2}}, "limits.nvidia.com/gpu: Daybreak owns this field: accelerators"),
        (
            {"limits": {"memory": "1Gi"}},
            "limits.memory: Daybreak owns this field: use spec.models[0].resources",
        ),
        (
            {"requests": {"cpu": 1}},
            "requests.cpu: Daybreak owns this field: use spec.models[0].resources.cpu",
        ),
        ({"limits": {"cpu": 4}}, "limits.cpu: a limit goes with a request: set spec.models[0].resources.cpu"),
        ({"requests": {"rdma/hca": 1}}, "requests.rdma/hca: Kubernetes has only one number"),
        ({"requests": {"rdma/hca": 1}, "limits": {"rdma/hca": 2}}, "Kubernetes has only one number"),
        (
            {"requests": {"ephemeral-storage": "2Gi"}, "limits": {"ephemeral-storage": "1Gi"}},
            "requests.ephemeral-storage: 2Gi is more than the limit of 1Gi",
        ),
        ({"claims": [{"name": "net"}]}, f"claims[0].name: {TEMPLATE}.spec.resourceClaims has no net"),
        ({"limits": {"rdma/hca": "one"}}, "write a Kubernetes quantity"),
    ],
)
def test_invalid_ray_container_resources_are_rejected(resources: dict[str, Any], words: str) -> None:
    [problem] = of_ray(resources=resources)
    assert problem.startswith(f"{TEMPLATE}.spec.containers[0].resources")
    assert words in problem


def test_cpu_limit_below_cpu_request_is_rejected() -> None:
    limit = {"spec": {"containers": [{"name": "ray", "resources": {"limits": {"cpu": 4}}}]}}
    assert of_worker(limit, resources={"cpu": "4"}) == ()
    [problem] = of_worker(limit, resources={"cpu": "4500m"})
    assert "limits.cpu: 4 is less than spec.models[0].resources.cpu, which is 4500m" in problem


def test_accelerator_limit_of_other_container_is_rejected() -> None:
    greedy = {**LOGS, "resources": {"limits": {"nvidia.com/gpu": 1}}}
    [problem] = of_pod(containers=[greedy])
    assert "containers[0].resources.limits.nvidia.com/gpu: Daybreak owns this field" in problem


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"runtimeClasName": "a"},
            "spec.runtimeClasName: KubeRay 1.6.2 knows no such field of a pod; did you mean",
        ),
        (
            {"containers": [{"name": "ray", "securityContext": {"capabilites": {}}}]},
            "securityContext.capabilites: KubeRay 1.6.2 knows no such field of a pod; did you mean cap",
        ),
        ({"affinity": {"nodeAfinity": {}}}, "did you mean nodeAffinity?"),
        ({"hostNetwork": "yes"}, 'hostNetwork: "yes" is invalid in Kubernetes: write true or false'),
        ({"dnsConfig": []}, "dnsConfig: [] is no object"),
        ({"hostAliases": {}}, "hostAliases: {} is no list"),
        ({"hostAliases": [{"ip": "::1"}, {"ip": "::1"}]}, "hostAliases[1]: ::1 exists already"),
        ({"hostname": 5}, "write a text, in quotes"),
        ({"hostname": None}, "hostname: null is invalid in Kubernetes"),
        ({"dnsConfig": {"options": [{"nam": "a"}]}}, "did you mean name?"),
        ({"readinessGates": [{}]}, "readinessGates[0].conditionType: this field is needed"),
        ({"securityContext": {"fsGroup": "5"}}, "write a whole number"),
        ({"containers": [{"name": "logs"}]}, "containers[0].image: this field is needed"),
        (
            {"containers": [{"name": "rayy"}]},
            "containers[0].image: this field is needed, or did you mean ray?",
        ),
        (
            {"containers": [{"name": "ray"}, {"name": "ray-worker"}]},
            "containers[1].name: the pod has a container",
        ),
        (
            {"initContainers": [{"name": "ray", "image": "a"}]},
            "initContainers[0].name: the pod has a container",
        ),
        (
            {"containers": [{"name": "autoscaler", "image": "a"}]},
            "the pod has a container autoscaler already",
        ),
        ({"containers": [LOGS, LOGS]}, "logs exists already"),
        ({"containers": [LOGS], "initContainers": [LOGS]}, "the pod has a container logs already"),
        ({"containers": [{**LOGS, "ports": [{"containerPort": 8000}]}]}, "8000 is taken in this pod"),
        ({"containers": [{"name": "ray", "ports": [{"containerPort": 8265}]}]}, "8265 is taken in this pod"),
        (
            {"volumes": [{"name": "daybreak-a", "emptyDir": {}}]},
            "volumes[0].name: daybreak-a is the name of a",
        ),
        ({"volumes": [{"name": "ray-logs", "emptyDir": {}}]}, "volumes[0].name: ray-logs is the name of a"),
        ({"volumes": [{"name": "a", "emptyDr": {}}]}, "did you mean emptyDir?"),
        (
            {"containers": [{**LOGS, "volumeMounts": [{"name": "ray-log", "mountPath": "/l"}]}]},
            "containers[0].volumeMounts[0].name: the pod has no volume ray-log; did you mean ray-logs?",
        ),
        ({"resourceClaims": [{"name": names.ACCELERATOR_CLAIM}]}, "is the claim of accelerator.claim"),
        (
            {
                "containers": [
                    {
                        "name": "ray",
                        "securityContext": {"privileged": True, "allowPrivilegeEscalation": False},
                    }
                ]
            },
            "securityContext.allowPrivilegeEscalation: Kubernetes rejects false with privileged",
        ),
        (
            {"containers": [{"name": "ray", "env": [{"name": "RAY_ADDRESS"}]}]},
            "RAY_ADDRESS may not be set: KubeRay",
        ),
        ({"containers": [{"name": "ray", "env": [{"name": "DAYBREAK_X"}]}]}, "it is Daybreak's own"),
    ],
)
def test_invalid_or_duplicate_pod_field_is_rejected(spec: dict[str, Any], words: str) -> None:
    found = of_pod(**spec)
    assert len(found) == 1
    assert found[0].startswith(f"{TEMPLATE}.spec.")
    assert words in found[0]


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({"labels": {"daybreak.dev/owner-name": "x"}}, "labels.daybreak.dev/owner-name"),
        ({"labels": {"app.kubernetes.io/name": "x"}}, "labels.app.kubernetes.io/name"),
        ({"labels": {"ray.io/cluster": "x"}}, "labels.ray.io/cluster"),
        ({"labels": {"ray.io/gang-scheduling-enabled": "true"}}, "labels.ray.io/gang-scheduling-enabled"),
        (
            {"annotations": {"ray.io/overwrite-container-cmd": "true"}},
            "annotations.ray.io/overwrite-container-cmd",
        ),
    ],
)
def test_owned_label_or_annotation_is_rejected(metadata: dict[str, Any], path: str) -> None:
    [problem] = of_worker({"metadata": metadata})
    assert problem.startswith(f"{TEMPLATE}.metadata.{path}: ")


def test_ray_service_accepts_queue_labels_and_rejects_owned_metadata() -> None:
    queue = {"kueue.x-k8s.io/queue-name": "a", "ray.io/gang-scheduling-enabled": "true"}
    assert read_message(with_runtime(metadata={"labels": queue})) == ()
    wrong = {
        "labels": {"ray.io/originated-from-crd": "a"},
        "annotations": {"ray.io/initializing-timeout": "1"},
    }
    found = read_message(with_runtime(metadata=wrong))
    assert [each.partition(": ")[0] for each in found] == [
        "spec.runtime.metadata.labels.ray.io/originated-from-crd",
        "spec.runtime.metadata.annotations.ray.io/initializing-timeout",
    ]


def test_host_network_is_rejected_with_api_keys_or_on_head() -> None:
    keys = {"apiKeys": [{"secretRef": {"name": "keys", "key": "a"}}]}
    desired = {"spec": {"hostNetwork": True}}
    assert of_worker(desired) == ()
    [problem] = of_worker(desired, {"access": keys})
    assert problem.startswith(f"{TEMPLATE}.spec.hostNetwork: ")
    [problem] = of_head(hostNetwork=True)
    assert "dashboard" in problem
    assert of_head(hostNetwork=False) == ()


def test_pod_template_cannot_cover_weights_or_replace_token() -> None:
    mounts = [{"name": "own", "mountPath": "/models/chat/"}]
    template = {
        "spec": {
            "volumes": [{"name": "own", "emptyDir": {}}],
            "containers": [
                {"name": "ray", "volumeMounts": mounts, "env": [{"name": "HF_TOKEN", "value": "x"}]}
            ],
        }
    }
    assert of_worker(template) == ()
    [problem] = of_worker(template, source="pvc://claim")
    assert "volumeMounts[0].mountPath: /models/chat/ may not be covered" in problem
    token = {"secretKeyRef": {"name": "hub", "key": "token"}}
    [problem] = of_worker(template, token=token)
    assert problem.endswith("HF_TOKEN may not be set: use spec.models[0].token")


def test_existing_volumes_can_be_mounted_but_not_redefined() -> None:
    scratch = {"name": "scratch", "emptyDir": {}}
    mounts = [
        {"name": name, "mountPath": f"/{name}"}
        for name in ("scratch", "ray-logs", "daybreak-shm", "daybreak-cache")
    ]
    template = {"spec": {"containers": [{**LOGS, "volumeMounts": mounts}]}}
    assert of_worker(template, volumes=[scratch]) == ()
    assert of_worker(template, {"runtime": {"volumes": [scratch]}}) == ()
    [problem] = of_worker({"spec": {"volumes": [scratch]}}, volumes=[scratch])
    assert problem == (
        f"{TEMPLATE}.spec.volumes[0].name: scratch is a volume of the service already; use another name"
    )
    elsewhere = {"name": "scratch", "mountPath": volume_names.CACHE_DIRECTORY}
    [problem] = of_worker(template, volumes=[scratch], volumeMounts=[elsewhere])
    assert "the pod has no volume daybreak-cache" in problem


def test_valid_pod_fields_are_accepted() -> None:
    spec = {
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.0.0.10"]},
        "hostPID": True,
        "schedulingGates": [{"name": "example.com/wait"}],
        "shareProcessNamespace": True,
        "containers": [
            {
                "name": "ray",
                "securityContext": {"privileged": True},
                "lifecycle": {"postStart": {"exec": {"command": ["true"]}}},
                "startupProbe": {"httpGet": {"port": "serve", "path": "/"}},
                "ports": [{"containerPort": 9000, "name": "extra"}],
                "resources": {"limits": {"hugepages-2Mi": "100Mi", "rdma/hca": 1}},
            },
            LOGS,
        ],
    }
    assert of_pod(**spec) == ()


def test_the_ports_of_ray_pods_are_owned() -> None:
    assert {*ports.HEAD_PORTS.values(), *ports.WORKER_PORTS.values()} <= set(pod_owners.RAY_PORTS)


@pytest.mark.parametrize(
    ("placement", "devices", "needed"), [("STRICT_PACK", 4, 8), ("PACK", 8, 4), (None, 8, 4)]
)
def test_claim_with_wrong_number_of_devices_is_rejected(
    placement: str | None, devices: int, needed: int
) -> None:
    def claimed(count: int) -> tuple[str, ...]:
        claim = {"templateName": "gpus", "devices": count}
        parallelism = {"tensor": 4, "pipeline": 2}
        model = {"accelerator": {"claim": claim}, "parallelism": parallelism, "placement": placement}
        return read_message(manifest(model=model))

    assert claimed(needed) == ()
    [problem] = claimed(devices)
    assert problem.startswith(
        "spec.models[0].accelerator.claim.devices: a worker pod of this model computes on "
        f"{needed}, not on {devices}"
    )


@pytest.mark.parametrize("place", ["spec.runtime.head", "spec.models[0]"])
def test_invalid_volumes_of_head_or_model_are_rejected(place: str) -> None:
    fields = {
        "volumes": [{"name": "daybreak-a", "emptyDir": {}}, {"name": "a"}],
        "volumeMounts": [{"name": "b", "mountPath": "/b"}],
    }
    whole = with_runtime(head=fields) if place.endswith("head") else manifest(model=fields)
    assert [each.partition(": ")[0] for each in read_message(whole)] == [
        f"{place}.volumes[0].name",
        f"{place}.volumes[1]",
        f"{place}.volumeMounts[0].name",
    ]


def test_model_volume_that_duplicates_service_volume_is_rejected() -> None:
    volume = {"name": "a", "emptyDir": {}}
    mount = {"name": "a", "mountPath": "/a"}
    both = {"volumes": [volume], "volumeMounts": [mount]}
    assert read_message(manifest(model={"volumeMounts": [mount]}, runtime={"volumes": [volume]})) == ()
    assert [each.partition(": ")[0] for each in read_message(manifest(model=both, runtime=both))] == [
        "spec.models[0].volumes[0].name",
        "spec.models[0].volumeMounts[0].mountPath",
    ]


def test_pod_schema_matches_pinned_kuberay() -> None:
    assert pod_schema.kuberay() == versions.KUBERAY, (
        "regenerate operator/src/daybreak/api/pods/pod_schema.json"
    )
