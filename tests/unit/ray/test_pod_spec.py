"""The Ray cluster: head and workers."""

from dataclasses import replace
from typing import Any

import pytest

from daybreak import versions
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.ray_service import ray_service
from tests.unit.ray.services import PLATFORM, model, service


def cluster(svc: Any) -> Any:
    """Return the Ray cluster of a service."""
    return ray_service(svc, PLATFORM)["spec"]["rayClusterConfig"]


def head(svc: Any) -> Any:
    """Return the head group."""
    return cluster(svc)["headGroupSpec"]


def worker(svc: Any) -> Any:
    """Return the first worker group."""
    return cluster(svc)["workerGroupSpecs"][0]


def pod(group: Any) -> Any:
    """Return the pod of a group."""
    return group["template"]["spec"]


def container(group: Any) -> Any:
    """Return the Ray container of a group."""
    return pod(group)["containers"][0]


def environment(group: Any) -> dict[str, Any]:
    """Return the variables of a group's Ray container. Fails if a name occurs twice."""
    found: dict[str, Any] = {}
    for variable in container(group)["env"]:
        assert variable["name"] not in found
        found[variable["name"]] = variable.get("value", variable.get("valueFrom"))
    return found


def test_a_tensor_parallel_replica_is_one_pod() -> None:
    group = worker(service(model(parallelism={"tensor": 4}, replicas={"min": 1, "max": 3})))
    assert group["resources"] == {"CPU": "5", "GPU": "4", "model-m": "4"}
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (1, 1, 3)
    assert container(group)["resources"] == {
        "requests": {"cpu": "5", "memory": "72Gi", "nvidia.com/gpu": "4"},
        "limits": {"memory": "72Gi", "nvidia.com/gpu": "4"},
    }


@pytest.mark.parametrize("direct", [True, False])
def test_worker_has_direct_port_only_with_direct_ingress(direct: bool) -> None:
    svc = service(runtime={"directIngress": direct})
    opened = {port["name"]: port["containerPort"] for port in container(worker(svc))["ports"]}
    assert opened == {"metrics": 8080, "serve": 8000} | ({"direct": 8100} if direct else {})
    assert environment(worker(svc)).get("DAYBREAK_HTTP_PORT") == ("8100" if direct else None)
    assert "DAYBREAK_HTTP_PORT" not in environment(head(svc))


def test_a_pipeline_has_a_pod_for_each_stage() -> None:
    svc = service(model(parallelism={"tensor": 2, "pipeline": 3}, replicas={"min": 1, "max": 2}))
    group = worker(svc)
    assert group["resources"] == {"CPU": "3", "GPU": "2", "model-m": "2"}
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (3, 3, 6)


def test_a_pipeline_on_one_node_is_one_pod() -> None:
    svc = service(model(parallelism={"tensor": 2, "pipeline": 3}, placement="STRICT_PACK"))
    group = worker(svc)
    assert group["resources"] == {"CPU": "7", "GPU": "6", "model-m": "6"}
    assert group["replicas"] == 1


def test_cpu_model_requests_no_accelerator_and_sets_thread_count() -> None:
    svc = service(model(accelerator={"kind": "cpu"}, resources={"cpu": "3500m"}))
    group = worker(svc)
    assert group["resources"] == {"CPU": "2", "GPU": "0", "model-m": "1"}
    assert container(group)["resources"]["requests"] == {"cpu": "3500m", "memory": "5Gi"}
    assert container(group)["image"] == PLATFORM.ray_cpu_image
    assert environment(group)["OMP_NUM_THREADS"] == "3"


def test_ray_cpu_count_is_independent_of_pod_cpu_request() -> None:
    small = worker(service(model(accelerator={"kind": "cpu"}, resources={"cpu": "100m"})))
    assert small["resources"]["CPU"] == "2"
    assert environment(small)["OMP_NUM_THREADS"] == "1"


def test_worker_group_offers_its_accelerator_type() -> None:
    group = worker(service(model(accelerator={"type": "A10"})))
    assert group["resources"]["accelerator_type:A10G"] == "1"


def test_accelerator_resource_of_other_vendor_is_used() -> None:
    group = worker(service(model(accelerator={"resource": "amd.com/gpu"}, parallelism={"tensor": 2})))
    assert container(group)["resources"]["limits"]["amd.com/gpu"] == "2"
    assert group["resources"]["GPU"] == "2"


def test_node_selectors_and_tolerations_reach_worker_and_head() -> None:
    svc = service(
        model(accelerator={"nodeSelector": {"disk": "fast"}, "tolerations": [{"operator": "Exists"}]}),
        runtime={"head": {"nodeSelector": {"pool": "small"}, "tolerations": [{"key": "a", "value": "b"}]}},
    )
    assert pod(worker(svc))["nodeSelector"] == {"disk": "fast"}
    assert pod(worker(svc))["tolerations"] == [{"operator": "Exists"}]
    assert pod(head(svc))["nodeSelector"] == {"pool": "small"}
    assert pod(head(svc))["tolerations"] == [{"key": "a", "value": "b"}]


def test_head_offers_no_cpu_or_gpu_and_only_its_own_resource() -> None:
    group = head(service())
    assert group["resources"] == {"CPU": "0", "GPU": "0", "daybreak-head": "1"}
    assert container(group)["resources"] == {
        "requests": {"cpu": "1", "memory": "4Gi"},
        "limits": {"memory": "4Gi"},
    }
    ports = {port["name"]: port["containerPort"] for port in container(group)["ports"]}
    assert ports == {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "metrics": 8080, "serve": 8000}


def test_head_of_gpu_workers_uses_head_image_if_configured() -> None:
    svc = service()
    assert container(head(svc))["image"] == PLATFORM.ray_head_image
    assert container(worker(svc))["image"] == PLATFORM.ray_image
    without = ray_service(svc, replace(PLATFORM, ray_head_image=""))["spec"]["rayClusterConfig"]
    assert container(without["headGroupSpec"])["image"] == PLATFORM.ray_image


@pytest.mark.parametrize(
    ("svc", "image"),
    [
        pytest.param(service(model(accelerator={"kind": "cpu"})), PLATFORM.ray_cpu_image, id="on the CPU"),
        pytest.param(service(runtime={"image": "mine:1"}), "mine:1", id="a custom image"),
    ],
)
def test_head_uses_worker_image_for_cpu_model_or_custom_image(svc: LLMService, image: str) -> None:
    assert container(head(svc))["image"] == container(worker(svc))["image"] == image


def test_head_of_gpu_workers_sees_no_gpu() -> None:
    svc = service()
    assert environment(head(svc))["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NVIDIA_VISIBLE_DEVICES" not in environment(worker(svc))
    on_cpu = service(model(accelerator={"kind": "cpu"}))
    assert "NVIDIA_VISIBLE_DEVICES" not in environment(head(on_cpu))


def test_compile_caches_of_gpu_worker_are_in_cache_directory() -> None:
    on_gpu = environment(worker(service()))
    compiled = ("CUDA_CACHE_PATH", "FLASHINFER_WORKSPACE_BASE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    for name in compiled:
        assert f"{on_gpu[name]}/".startswith("/var/cache/daybreak/")
    # vLLM's cache, with the cache of torch.compile, is below this directory.
    assert on_gpu["XDG_CACHE_HOME"] == "/var/cache/daybreak"
    on_cpu = environment(worker(service(model(accelerator={"kind": "cpu"}))))
    assert not set(compiled) & set(on_cpu)


def test_pod_sets_no_user_id_if_platform_assigns_users() -> None:
    assigned = replace(PLATFORM, assigned_users=True)
    spec = ray_service(service(), assigned)["spec"]["rayClusterConfig"]
    for group in (spec["headGroupSpec"], spec["workerGroupSpecs"][0]):
        security = pod(group)["securityContext"]
        assert security == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_shared_memory_setting_sizes_volume_and_object_store() -> None:
    group = worker(service(model(resources={"sharedMemory": "600Mi"})))
    [volume] = [volume for volume in pod(group)["volumes"] if volume.get("emptyDir")]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "600Mi"}
    mounts = {mount["name"]: mount["mountPath"] for mount in container(group)["volumeMounts"]}
    assert mounts[volume["name"]] == "/dev/shm"  # noqa: S108 - the kernel's own name for it
    assert group["rayStartParams"] == {"object-store-memory": str(300 * 2**20)}


@pytest.mark.parametrize(("written", "drain"), [("2m", 120), ("1500ms", 30), ("90500ms", 91)])
def test_worker_grace_period_exceeds_its_drain_timeout(written: str, drain: int) -> None:
    group = worker(service(model(serve={"gracefulShutdownTimeout": written})))
    assert environment(group)["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] == str(drain)
    assert pod(group)["terminationGracePeriodSeconds"] > drain


def test_head_grace_period_exceeds_its_drain_timeout() -> None:
    group = head(service())
    drain = int(environment(group)["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"])
    assert pod(group)["terminationGracePeriodSeconds"] > drain


def test_cluster_deletion_delay_exceeds_idle_and_shutdown_timeouts() -> None:
    def delay(written: str) -> int:
        svc = service(model(), model(name="n", serve={"gracefulShutdownTimeout": written}))
        seconds = ray_service(svc, PLATFORM)["spec"]["rayClusterDeletionDelaySeconds"]
        assert isinstance(seconds, int)
        return seconds

    assert delay("1s") > 120
    assert delay("1h") > 3600


def test_pods_meet_the_restricted_standard() -> None:
    spec = cluster(service())
    for group in (spec["headGroupSpec"], spec["workerGroupSpecs"][0]):
        security = pod(group)["securityContext"]
        assert security["runAsNonRoot"] is True
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    own = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container(spec["headGroupSpec"])["securityContext"] == own
    assert container(spec["workerGroupSpecs"][0])["securityContext"] == own
    assert spec["autoscalerOptions"]["securityContext"] == own


def test_only_the_autoscaler_mounts_the_api_token() -> None:
    spec = cluster(service())
    volumes = [volume["name"] for volume in pod(spec["headGroupSpec"])["volumes"] if "projected" in volume]
    assert [mount["name"] for mount in spec["autoscalerOptions"]["volumeMounts"]] == volumes
    for group in (spec["headGroupSpec"], spec["workerGroupSpecs"][0]):
        assert pod(group)["automountServiceAccountToken"] is False
        assert not set(volumes) & {mount["name"] for mount in container(group)["volumeMounts"]}


def test_ray_cluster_requires_token_and_enables_autoscaling() -> None:
    spec = cluster(service(runtime={"idleTimeout": "1500ms"}))
    assert spec["rayVersion"] == versions.RAY
    assert spec["authOptions"] == {"mode": "token"}
    assert spec["enableInTreeAutoscaling"] is True
    assert spec["autoscalerOptions"]["version"] == "v2"
    assert spec["autoscalerOptions"]["idleTimeoutSeconds"] == 2


def test_user_variables_override_defaults_but_not_model_token() -> None:
    svc = service(
        model(token={"secretKeyRef": {"name": "hub", "key": "token"}}),
        model(name="open"),
        runtime={
            "env": [
                {"name": "RAY_USAGE_STATS_ENABLED", "value": "1"},
                {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "all", "key": "token"}}},
            ]
        },
    )
    [gated, free] = cluster(svc)["workerGroupSpecs"]
    assert environment(gated)["RAY_USAGE_STATS_ENABLED"] == "1"
    assert environment(gated)["HF_TOKEN"] == {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert environment(free)["HF_TOKEN"] == {"secretKeyRef": {"name": "all", "key": "token"}}
    assert environment(head(svc))["HF_TOKEN"] == {"secretKeyRef": {"name": "all", "key": "token"}}


def test_model_token_is_not_set_in_the_head() -> None:
    svc = service(model(token={"secretKeyRef": {"name": "hub", "key": "token"}}))
    assert "HF_TOKEN" not in environment(head(svc))


def test_user_volume_at_cache_path_replaces_cache_volume() -> None:
    cache = {"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}
    svc = service(
        runtime={"volumes": [cache], "volumeMounts": [{"name": "cache", "mountPath": "/var/cache/daybreak/"}]}
    )
    group = worker(svc)
    assert [volume for volume in pod(group)["volumes"] if volume["name"] == "daybreak-cache"] == []
    assert cache in pod(group)["volumes"]
    mounts = [mount["mountPath"].rstrip("/") for mount in container(group)["volumeMounts"]]
    assert mounts.count("/var/cache/daybreak") == 1


def test_weights_in_a_volume_are_mounted_in_the_models_own_pods_only() -> None:
    svc = service(model(name="a", source="pvc://claim/a"), model(name="b"))
    [with_claim, without] = cluster(svc)["workerGroupSpecs"]
    names = [volume["name"] for volume in pod(with_claim)["volumes"]]
    assert "daybreak-model" in names
    for group in (without, head(svc)):
        assert "daybreak-model" not in [volume["name"] for volume in pod(group)["volumes"]]


def test_runtime_settings_apply_to_head_and_worker_pods() -> None:
    svc = service(
        runtime={
            "image": "registry.example.com/own:2",
            "imagePullPolicy": "Always",
            "imagePullSecrets": [{"name": "pull"}],
            "rayVersion": "2.61.0",
            "serviceAccountName": "identity",
            "priorityClassName": "high",
        }
    )
    assert cluster(svc)["rayVersion"] == "2.61.0"
    for group in (head(svc), worker(svc)):
        assert container(group)["image"] == "registry.example.com/own:2"
        assert container(group)["imagePullPolicy"] == "Always"
        assert pod(group)["imagePullSecrets"] == [{"name": "pull"}]
        assert pod(group)["serviceAccountName"] == "identity"
        assert pod(group)["priorityClassName"] == "high"


def test_worker_pod_is_labeled_with_owner_and_model() -> None:
    labels = worker(service(model(name="Owner/Model")))["template"]["metadata"]["labels"]
    assert labels["daybreak.dev/owner-name"] == "llama"
    assert labels["daybreak.dev/model"].startswith("owner-model-")


def test_appended_model_leaves_existing_worker_groups_unchanged() -> None:
    # KubeRay then adds the group to the running cluster instead of starting a new one.
    [before] = cluster(service(model()))["workerGroupSpecs"]
    [kept, _] = cluster(service(model(), model(name="n")))["workerGroupSpecs"]
    assert before == kept


@pytest.mark.parametrize(
    "change",
    [
        {"engine": {"args": {"max_model_len": 1}}},
        {"serve": {"maxOngoingRequests": 3, "healthCheckTimeout": "1s"}},
        {"source": "hf://owner/other", "revision": "v2"},
    ],
)
def test_cluster_is_unchanged_if_serve_applies_change_in_place(change: dict[str, Any]) -> None:
    assert cluster(service()) == cluster(service(model(**change)))
