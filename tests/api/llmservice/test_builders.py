"""Objects that the builders create, on the real API server and before the real KubeRay."""

import contextlib
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from cluster import ControlPlane, paths
from daybreak import versions
from daybreak.api.common import names
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.resource import KIND
from daybreak.api.schema.resource import API_VERSION
from daybreak.kinds.llmservice.objects.desired import desired
from scripts.schemas.pod_schema import pod_schema
from tests import installed
from tests.api.admin import APPLY, Admin, Refused, eventually
from tests.kuberay_process import kuberay as run_kuberay
from tests.property.services import services

SAMPLES = paths.REPOSITORY / "manifests" / "samples"
EVERYTHING = paths.REPOSITORY / "tests" / "golden" / "everything.yaml"
PLATFORM = installed.platform()
GATEWAY_PORT = names.GATEWAY_PORTS[0]
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def written() -> list[Any]:
    """Return every LLMService of the samples, and the one that sets every field."""
    return [
        pytest.param(manifest, id=manifest["metadata"]["name"])
        for path in [EVERYTHING, *sorted(SAMPLES.glob("*.yaml"))]
        for manifest in yaml.safe_load_all(path.read_text())
        if manifest.get("kind") == KIND
    ]


def read(manifest: dict[str, Any], namespace: str) -> LLMService:
    """Return the service in a namespace. It is not created: a dry run does not need it."""
    metadata = {**manifest["metadata"], "namespace": namespace, "uid": str(uuid.UUID(int=1))}
    return LLMService.from_manifest({**manifest, "metadata": metadata})


def create(admin: Admin, spec: dict[str, Any]) -> LLMService:
    """A service that exists, so that garbage collection leaves its objects alone. No operator looks at it."""
    manifest = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "one"}, "spec": spec}
    return LLMService.from_manifest(admin.create(manifest))


def apply(admin: Admin, manifest: dict[str, Any], **query: str) -> Any:
    """Apply as the operator does; a field that the API server does not know is an error."""
    path = admin.path(manifest["kind"], manifest["metadata"]["name"])
    options = {"fieldManager": names.FIELD_MANAGER, "force": "true", "fieldValidation": "Strict", **query}
    return admin.request("PATCH", path, manifest, APPLY, query=options)


def test_committed_pod_schema_equals_schema_of_kuberay_crd(plane: ControlPlane) -> None:
    """The API server silently drops fields that are not in KubeRay's CRD, so the operator rejects them."""
    name = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayservices.ray.io"
    crd = Admin(plane.kubeconfig).request("GET", name)
    committed = paths.REPOSITORY / "operator" / "src" / "daybreak" / "api" / "pods" / "pod_schema.json"
    assert json.loads(committed.read_text()) == pod_schema(crd, versions.KUBERAY)


def pod_of(group: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return the pod of a group's template, without KubeRay's additions."""
    template = group["template"]
    metadata = {**template["metadata"], "name": "a-pod", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def accept(admin: Admin, svc: LLMService) -> None:
    """Every object, and the pods that it asks for, are accepted, with no field unknown.

    Awake and asleep in the default installation, and awake without a gateway.
    """
    every = [model.name for model in svc.spec.models]
    objects = desired(svc, PLATFORM, None, GATEWAY_PORT, unfilled=every)
    asleep = desired(svc, PLATFORM, None, GATEWAY_PORT, SleepDepth.WORKERS, every)
    direct = desired(svc, replace(PLATFORM, gateway_image=""), f"{svc.name}-abcde")
    for manifest in [*asleep, *direct, *objects]:
        apply(admin, manifest, dryRun="All")
    cluster = objects[-1]["spec"]["rayClusterConfig"]
    jobs = [manifest["spec"] for manifest in objects if manifest["kind"] == "Job"]
    for group in [cluster["headGroupSpec"], *cluster["workerGroupSpecs"], *jobs]:
        pod = pod_of(group, admin.namespace)
        # These must exist for a pod to be taken; they have no part in what is tested.
        pod["spec"].pop("serviceAccountName")
        pod["spec"].pop("priorityClassName", None)
        pod["spec"].pop("runtimeClassName", None)
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        admin.request("POST", admin.path("Pod"), pod, query=query)


@contextlib.contextmanager
def namespace(plane: ControlPlane, labels: dict[str, str]) -> Iterator[Admin]:
    """Yield a namespace with these labels."""
    everywhere = Admin(plane.kubeconfig)
    name = f"builders-{uuid.uuid4().hex[:8]}"
    metadata = {"name": name, "labels": labels}
    everywhere.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    admin = everywhere.within(name)
    eventually("the default account", lambda: admin.get("ServiceAccount", "default"))
    yield admin
    everywhere.delete("Namespace", name)


@pytest.fixture(scope="module")
def restricted(plane: ControlPlane) -> Iterator[Admin]:
    """Yield a namespace that takes restricted pods only."""
    with namespace(plane, RESTRICTED) as admin:
        yield admin


@pytest.fixture(scope="module")
def unrestricted(plane: ControlPlane) -> Iterator[Admin]:
    """Yield a namespace that takes any pod."""
    with namespace(plane, {}) as admin:
        yield admin


def more_than_restricted(svc: LLMService) -> bool:
    """Return True if a template requests fields that the restricted standard forbids."""
    text = svc.spec.model_dump_json(by_alias=True, exclude_unset=True)
    return any(word in text for word in ('"hostNetwork":true', '"privileged":true', "IPC_LOCK"))


@pytest.mark.parametrize("manifest", written())
def test_a_sample_is_accepted(manifest: dict[str, Any], restricted: Admin, unrestricted: Admin) -> None:
    # The samples are for any namespace; what sets every field has a capability more.
    bold = manifest["metadata"]["name"] == "everything"
    assert more_than_restricted(read(manifest, "any")) is bold
    admin = unrestricted if bold else restricted
    accept(admin, read(manifest, admin.namespace))


@given(svc=services())
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_service_is_accepted(svc: LLMService, restricted: Admin, unrestricted: Admin) -> None:
    admin = unrestricted if more_than_restricted(svc) else restricted
    spec = svc.spec.model_dump(by_alias=True, exclude_none=True)
    accept(admin, read({"metadata": {"name": svc.name}, "spec": spec}, admin.namespace))


def test_restricted_namespace_rejects_privileged_pod_template(restricted: Admin) -> None:
    """The namespace's own Pod Security decides, regardless of the author of the LLMService."""
    ray = {"name": "ray", "securityContext": {"privileged": True}}
    model = {"name": "m", "source": "hf://o/m", "podTemplate": {"spec": {"containers": [ray]}}}
    svc = read({"metadata": {"name": "one"}, "spec": {"models": [model]}}, restricted.namespace)
    with pytest.raises(Refused, match=r"violates PodSecurity.*privileged"):
        accept(restricted, svc)


def test_api_server_rejects_unknown_field_and_unrestricted_pod(restricted: Admin) -> None:
    svc = read(
        {"metadata": {"name": "one"}, "spec": {"models": [{"name": "m", "source": "hf://o/m"}]}},
        restricted.namespace,
    )
    ray_service = desired(svc, PLATFORM, None, GATEWAY_PORT)[-1]
    ray_service["spec"]["rayClusterConfig"]["headGroupSpec"]["nodeSelektor"] = {}
    with pytest.raises(Refused, match="nodeSelektor"):
        apply(restricted, ray_service, dryRun="All")
    pod = pod_of(ray_service["spec"]["rayClusterConfig"]["headGroupSpec"], restricted.namespace)
    pod["spec"].pop("serviceAccountName")
    pod["spec"]["securityContext"] = {}
    with pytest.raises(Refused, match="violates PodSecurity"):
        restricted.request("POST", restricted.path("Pod"), pod, query={"dryRun": "All"})


def _ours(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the object without fields that controllers write, such as a PodDisruptionBudget's status."""
    metadata = {
        k: v for k, v in manifest["metadata"].items() if k not in ("resourceVersion", "managedFields")
    }
    ours = [e for e in manifest["metadata"].get("managedFields", ()) if e.get("subresource") != "status"]
    return {k: v for k, v in manifest.items() if k != "status"} | {"metadata": metadata, "managed": ours}


def test_applying_twice_changes_nothing(restricted: Admin) -> None:
    svc = create(restricted, yaml.safe_load(EVERYTHING.read_text())["spec"])
    for manifest in desired(svc, PLATFORM, None, GATEWAY_PORT):
        first, second = apply(restricted, manifest), apply(restricted, manifest)
        assert _ours(first) == _ours(second), manifest["kind"]
    remove(restricted)


def remove(admin: Admin) -> None:
    """Delete the service and wait until nothing of it is left."""
    admin.delete(KIND, "one")

    def gone() -> bool:
        pods = admin.list("Pod")
        for pod in pods:
            # There is no kubelet to end them; KubeRay may be quicker.
            path = admin.path("Pod", pod["metadata"]["name"])
            with contextlib.suppress(Refused):
                admin.raw("DELETE", path, query={"gracePeriodSeconds": "0"})
        return not pods and not admin.list("RayService") and not admin.list("RayCluster")

    eventually("nothing left", gone)


@pytest.fixture(scope="module")
def kuberay(plane: ControlPlane, restricted: Admin) -> Iterator[Path]:
    """KubeRay's operator for the restricted namespace; its log."""
    with run_kuberay(plane, namespace=restricted.namespace) as log:
        yield log


@pytest.fixture
def started(restricted: Admin, kuberay: Path) -> Iterator[Any]:
    """Applies a service's objects, and gives its Ray pods as KubeRay has made them, the head first."""

    def start(spec: dict[str, Any], pods: int) -> list[Any]:
        for manifest in desired(create(restricted, spec), PLATFORM, None, GATEWAY_PORT):
            apply(restricted, manifest)

        def observed() -> list[Any]:
            found: list[Any] = restricted.list(
                "Pod", labelSelector="daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name=one"
            )
            return found if len(found) == pods else []

        def order(pod: Any) -> tuple[bool, str]:
            labels = pod["metadata"]["labels"]
            return labels["ray.io/node-type"] != "head", labels["ray.io/group"]

        try:
            return sorted(eventually(f"{pods} Ray pods", observed), key=order)
        except AssertionError:
            pytest.fail(kuberay.read_text()[-3000:])

    yield start
    remove(restricted)


def command_of(pod: Any) -> str:
    """Return the command that KubeRay sets for the Ray container."""
    [command] = pod["spec"]["containers"][0]["args"]
    assert isinstance(command, str)
    return command


def test_kuberay_creates_restricted_pods_with_resources_of_models(started: Any) -> None:
    spec = {
        "models": [
            {
                "name": "a",
                "source": "pvc://claim/a",
                "parallelism": {"tensor": 4},
                "accelerator": {"type": "H100"},
            },
            {"name": "b", "source": "hf://owner/b", "parallelism": {"tensor": 2, "pipeline": 2}},
        ]
    }
    head, one, *stages = started(spec, pods=4)

    assert "--num-cpus=0" in command_of(head)
    assert "--num-gpus=0" in command_of(head)
    assert "--resources='{\"daybreak-head\":1}'" in command_of(head)
    assert [container["name"] for container in head["spec"]["containers"]] == ["ray-head", "autoscaler"]
    assert "--num-cpus=5" in command_of(one)
    assert "--num-gpus=4" in command_of(one)
    assert '"accelerator_type:H100":1' in command_of(one)
    assert '"model-a":4' in command_of(one)
    for stage in stages:
        assert "--num-cpus=3" in command_of(stage)
        assert "--num-gpus=2" in command_of(stage)
        assert "--resources='{\"model-b\":2}'" in command_of(stage)


def test_kuberay_starts_ray_in_own_container_beside_other_containers(started: Any) -> None:
    helper = {"name": "helper", "image": "helper:1"}
    template = {
        "metadata": {"labels": {"team": "models"}, "annotations": {"note": "a"}},
        "spec": {
            "schedulerName": "nobody",
            "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a"]}],
            "containers": [helper, {"name": "ray", "env": [{"name": "OWN", "value": "1"}]}],
            "initContainers": [{"name": "first", "image": "first:1"}],
        },
    }
    claim = {"templateName": "two-gpus", "devices": 2}
    model = {**MODEL, "parallelism": {"tensor": 2}, "accelerator": {"claim": claim}, "podTemplate": template}
    runtime = {
        "head": {"podTemplate": {"spec": {"containers": [helper]}}},
        "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "models"}},
    }
    head, worker = started({"models": [model], "runtime": runtime}, pods=2)
    assert [each["name"] for each in head["spec"]["containers"]] == ["ray-head", "helper", "autoscaler"]
    assert [each["name"] for each in worker["spec"]["containers"]] == ["ray-worker", "helper"]
    assert [each["name"] for each in worker["spec"]["initContainers"]] == ["first", "wait-gcs-ready"]
    assert "--num-gpus=2" in command_of(worker)
    assert worker["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == "two-gpus"
    assert worker["spec"]["schedulerName"] == "nobody"
    assert worker["spec"]["hostAliases"] == [{"ip": "192.0.2.1", "hostnames": ["a"]}]
    assert worker["metadata"]["labels"]["team"] == "models"
    assert worker["metadata"]["annotations"]["note"] == "a"


def test_only_the_autoscaler_gets_the_api_token(started: Any) -> None:
    spec = {"models": [{"name": "a", "source": "hf://owner/a", "accelerator": {"kind": "cpu"}}]}
    head, worker = started(spec, pods=2)
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    seeing = {
        container["name"]
        for pod in (head, worker)
        for container in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
        if path in {mount["mountPath"] for mount in container.get("volumeMounts", [])}
    }
    assert seeing == {"autoscaler"}
    ray, autoscaler = head["spec"]["containers"]
    logs = [
        mount["name"]
        for container in (ray, autoscaler)
        for mount in container["volumeMounts"]
        if mount["mountPath"] == "/tmp/ray"  # noqa: S108 - where Ray keeps its session
    ]
    assert logs[0] == logs[1], "the autoscaler writes its logs where Ray reads them"


def test_ray_pods_keep_daybreak_labels_and_require_token(started: Any) -> None:
    spec = {"models": [{"name": "Owner/A.1", "source": "hf://owner/a"}]}
    head, worker = started(spec, pods=2)
    for pod in (head, worker):
        assert pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "daybreak"
        variables = {variable["name"]: variable for variable in pod["spec"]["containers"][0]["env"]}
        assert variables["RAY_AUTH_MODE"]["value"] == "token"
        assert "secretKeyRef" in json.dumps(variables["RAY_AUTH_TOKEN"])
    labels = worker["metadata"]["labels"]
    assert labels["daybreak.dev/model"] == labels["ray.io/group"]


def test_kubernetes_can_count_pods_of_disruption_budget(started: Any, restricted: Admin) -> None:
    started({"models": [{"name": "a", "source": "hf://owner/a"}]}, pods=2)

    def counted() -> Any:
        budget = restricted.get("PodDisruptionBudget", "one-ray")
        return budget["status"] if budget["status"].get("expectedPods") else None

    # Of a maximum of absent pods it would say SyncFailed, and then let no pod go at all.
    status = eventually("a count of the pods", counted)
    assert status["desiredHealthy"] == 1
    [condition] = status["conditions"]
    assert (condition["type"], condition["reason"]) == ("DisruptionAllowed", "InsufficientPods")


MODEL = {"name": "a", "source": "hf://owner/a"}
IN_PLACE: dict[str, dict[str, Any]] = {
    "replicas": {"replicas": {"min": 0, "max": 5}},
    "engine": {"engine": {"args": {"max_model_len": 4096}}},
    "serve": {"serve": {"maxOngoingRequests": 5, "healthCheckPeriod": "5s"}},
}


def test_kuberay_starts_new_cluster_only_for_change_that_needs_new_pods(
    started: Any, restricted: Admin
) -> None:
    started({"models": [MODEL]}, pods=2)

    def clusters() -> list[str]:
        return [cluster["metadata"]["name"] for cluster in restricted.list("RayCluster")]

    def change(changed: dict[str, Any]) -> None:
        merged = restricted.merge(KIND, "one", {"spec": {"models": [{**MODEL, **changed}]}})
        apply(restricted, desired(LLMService.from_manifest(merged), PLATFORM, None, GATEWAY_PORT)[-1])

    [before] = clusters()
    for changed in IN_PLACE.values():
        change(changed)
        # KubeRay looks at a RayService every two seconds, and says nowhere that it has.
        time.sleep(3)
        assert clusters() == [before], changed
    # KubeRay itself would leave the cluster without what it shall tolerate.
    change({"accelerator": {"tolerations": [{"operator": "Exists"}]}})
    eventually("another cluster", lambda: set(clusters()) - {before})
