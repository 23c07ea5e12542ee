"""PVCs and Jobs of models with cached weights, and the PVC for the compile cache of engines."""

import json
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.llmservice.definition import NAME_LIMIT
from daybreak.api.llmservice.validation import problems
from daybreak.kinds.llmservice.objects.built_with import wishes
from daybreak.kinds.llmservice.objects.desired import desired
from tests.unit.ray.services import PLATFORM, model, service

TOKEN = {"secretKeyRef": {"name": "hub", "key": "token"}}


def made(kind: str, *models: dict[str, Any], **spec: Any) -> list[dict[str, Any]]:
    """Return the objects of a kind while the weights of every model still need to be copied."""
    svc = service(*models, **spec)
    unfilled = [each.name for each in svc.spec.models]
    return [each for each in desired(svc, PLATFORM, None, unfilled=unfilled) if each["kind"] == kind]


def job(*models: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the only Job."""
    [found] = made("Job", *models, **spec)
    return found


def order(found: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that the Job passes to its program."""
    [container] = found["spec"]["template"]["spec"]["containers"]
    by_name = {each["name"]: each.get("value") for each in container["env"]}
    reported: dict[str, Any] = json.loads(by_name["DAYBREAK_FILL"])
    return reported


def worker(*models: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the spec of the first model's worker pods."""
    [ray_service] = made("RayService", *models, **spec)
    found: dict[str, Any] = ray_service["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]
    return found


def variables(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the environment of a pod's first container."""
    return {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}


def test_a_job_and_a_claim_come_before_the_ray_service() -> None:
    svc = service(model(cache={"size": "10Gi"}))
    kinds = [each["kind"] for each in desired(svc, PLATFORM, None, unfilled=["m"])]
    assert kinds[-4:] == ["PersistentVolumeClaim", "Job", "Service", "RayService"]


def test_existing_pvc_is_not_created() -> None:
    assert made("PersistentVolumeClaim", model(cache={"claimName": "models"})) == []


def test_no_job_is_created_if_no_model_needs_a_copy() -> None:
    svc = service(model(cache={"size": "10Gi"}))
    assert "Job" not in [each["kind"] for each in desired(svc, PLATFORM, None)]


def test_pvc_is_read_write_many_unless_access_mode_is_set() -> None:
    [claim] = made("PersistentVolumeClaim", model(cache={"size": "10Gi"}))
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "10Gi"}},
    }
    own = {"size": "10Gi", "accessMode": "ReadWriteOnce", "storageClassName": "fast"}
    [claim] = made("PersistentVolumeClaim", model(cache=own))
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["storageClassName"] == "fast"


def test_workers_mount_weights_of_the_job_read_only() -> None:
    cached = model(source="s3://bucket/a", cache={"claimName": "models"})
    reported = order(job(cached))
    pod = worker(cached)
    assert {"claimName": "models", "readOnly": True} in [
        each.get("persistentVolumeClaim") for each in pod["volumes"]
    ]
    [mount] = [each for each in pod["containers"][0]["volumeMounts"] if each["mountPath"] == "/models/m"]
    assert mount["readOnly"] is True
    [ray_service] = made("RayService", cached)
    assert f"model_source: /models/m/{reported['directory']}\n" in ray_service["spec"]["serveConfigV2"]
    assert reported["source"] == "s3://bucket/a"


def test_the_token_goes_to_the_job_alone() -> None:
    cached = model(token=TOKEN, cache={"size": "10Gi"})
    [container] = job(cached)["spec"]["template"]["spec"]["containers"]
    assert {"name": "HF_TOKEN", "valueFrom": TOKEN} in container["env"]
    assert "HF_TOKEN" not in json.dumps(made("RayService", cached))


def test_network_policy_admits_operator_to_progress_port_of_job() -> None:
    cached = model(cache={"size": "10Gi"})
    found = job(cached)
    [container] = found["spec"]["template"]["spec"]["containers"]
    [port] = container["ports"]
    assert port["containerPort"] == order(found)["port"]
    [policy] = made("NetworkPolicy", cached)
    opened = [rule for rule in policy["spec"]["ingress"] if port["containerPort"] in ports_of(rule)]
    [[operator]] = [rule["from"] for rule in opened]
    assert operator["podSelector"]["matchLabels"] == names.operator_selector()
    [without] = made("NetworkPolicy", model())
    assert not [rule for rule in without["spec"]["ingress"] if port["containerPort"] in ports_of(rule)]


def ports_of(rule: dict[str, Any]) -> list[int]:
    """Return the ports that a rule of a NetworkPolicy opens."""
    return [port["port"] for port in rule.get("ports", ())]


def test_every_source_and_revision_has_a_directory_of_its_own() -> None:
    cached = [
        model(source="hf://a/b", cache={"size": "1Gi"}),
        model(source="hf://a/b", revision="1", cache={"size": "1Gi"}),
        model(source="hf://a/c", cache={"size": "1Gi"}),
        model(source="s3://a/b", cache={"size": "1Gi"}),
    ]
    assert len({order(job(each))["directory"] for each in cached}) == len(cached)


def test_only_own_pvc_is_marked_as_sole() -> None:
    assert order(job(model(cache={"size": "1Gi"})))["sole"] is True
    assert order(job(model(cache={"claimName": "models"})))["sole"] is False


def test_job_with_different_content_has_different_name() -> None:
    cached = model(cache={"size": "1Gi"})
    names_ = {
        job(cached)["metadata"]["name"],
        job(cached, runtime={"image": "own:1"})["metadata"]["name"],
        job(cached, runtime={"env": [{"name": "AWS_REGION", "value": "x"}]})["metadata"]["name"],
        job({**cached, "token": TOKEN})["metadata"]["name"],
    }
    assert len(names_) == 4
    assert job(cached) == job(cached)


def test_longest_job_name_fits_into_a_label() -> None:
    assert len(job(model(cache={"size": "1Gi"}), name="a" * NAME_LIMIT)["metadata"]["name"]) <= 63


def test_job_for_single_node_volume_is_placed_like_the_model() -> None:
    pool = {"nodeSelector": {"pool": "gpu"}, "tolerations": [{"operator": "Exists"}]}
    once = {"size": "1Gi", "accessMode": "ReadWriteOnce"}
    pod = job(model(accelerator=pool, cache=once))["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == pool["nodeSelector"]
    assert pod["tolerations"] == pool["tolerations"]
    [preferred] = pod["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    own = {**once, "nodeSelector": {"zone": "a"}, "tolerations": []}
    pod = job(model(accelerator=pool, cache=own))["spec"]["template"]["spec"]
    assert (pod["nodeSelector"], pod.get("tolerations")) == ({"zone": "a"}, None)


@pytest.mark.parametrize("cache", [{"size": "1Gi"}, {"claimName": "models"}])
def test_job_for_shared_volume_has_no_placement_constraints(cache: dict[str, Any]) -> None:
    """The Job avoids accelerator nodes: an autoscaler would add one for a download."""
    pod = job(model(accelerator={"nodeSelector": {"pool": "gpu"}}, cache=cache))["spec"]["template"]["spec"]
    assert not {"nodeSelector", "tolerations", "affinity"} & set(pod)


def test_job_requests_no_accelerator_and_sees_none() -> None:
    pod = job(model(cache={"size": "1Gi"}))["spec"]["template"]["spec"]
    assert set(pod["containers"][0]["resources"]["requests"]) == {"cpu", "memory"}
    assert variables(pod)["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_job_inherits_image_secrets_account_and_env_of_ray_pods() -> None:
    runtime = {
        "image": "own:1",
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccountName": "reader",
        "env": [{"name": "AWS_REGION", "value": "x"}],
    }
    pod = job(model(cache={"size": "1Gi"}), runtime=runtime)["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "own:1"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["serviceAccountName"] == "reader"
    assert variables(pod)["AWS_REGION"] == "x"


def test_compile_cache_is_separate_for_each_model() -> None:
    pod = worker(
        model(name="Owner/M"),
        model(name="b", source="hf://a/b"),
        runtime={"compileCache": {"claimName": "c"}},
    )
    [mount] = [
        each
        for each in pod["containers"][0]["volumeMounts"]
        if each["mountPath"] == "/var/cache/daybreak/compiled"
    ]
    assert mount["subPath"] == f"llama/{names.worker_group('Owner/M')}"
    compilers = {
        name: value
        for name, value in variables(pod).items()
        if value and value.startswith(mount["mountPath"])
    }
    assert set(compilers) == {
        "CUDA_CACHE_PATH",
        "FLASHINFER_WORKSPACE_BASE",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "VLLM_CACHE_ROOT",
    }
    # Weights that a pod fetches itself do not concern other pods.
    assert variables(pod)["XDG_CACHE_HOME"] == "/var/cache/daybreak"


def test_head_has_no_compile_cache() -> None:
    [ray_service] = made("RayService", runtime={"compileCache": {"claimName": "c"}})
    head = ray_service["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]
    assert "compiled" not in json.dumps(head)


CA = {"name": "ca", "configMap": {"name": "corporate-ca"}}
CA_MOUNT = {"name": "ca", "mountPath": "/etc/corporate"}


def job_pod(*models: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return the spec of the Job's pod."""
    found: dict[str, Any] = job(*models, **spec)["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("of_model", [False, True])
def test_job_mounts_input_volumes_of_ray_pods(of_model: bool) -> None:
    """A private CA that the Ray pods read is needed to copy the weights as well."""
    inputs = {"volumes": [CA], "volumeMounts": [CA_MOUNT]}
    cached = model(cache={"size": "10Gi"}, **(inputs if of_model else {}))
    pod = job_pod(cached, runtime={} if of_model else inputs)
    assert CA in pod["volumes"]
    assert CA_MOUNT in pod["containers"][0]["volumeMounts"]


def test_job_does_not_mount_pvcs_of_ray_pods() -> None:
    """A PVC can be bound to the node of the pods that use it."""
    runtime = {
        "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}, CA],
        "volumeMounts": [{"name": "disk", "mountPath": "/disk"}, CA_MOUNT],
    }
    pod = job_pod(model(cache={"size": "10Gi"}), runtime=runtime)
    assert "disk" not in {each["name"] for each in pod["volumes"]}
    assert "disk" not in {each["name"] for each in pod["containers"][0]["volumeMounts"]}


def test_pod_template_shapes_the_job() -> None:
    template = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"sidecar": "off"}},
        "spec": {
            "volumes": [CA],
            "containers": [
                {"name": "fill", "resources": {"limits": {"cpu": "2"}}, "volumeMounts": [CA_MOUNT]}
            ],
        },
    }
    plain = job(model(cache={"size": "10Gi"}))["spec"]["template"]
    shaped = job(model(cache={"size": "10Gi", "podTemplate": template}))["spec"]["template"]
    assert shaped["metadata"]["labels"] == {**plain["metadata"]["labels"], "team": "a"}
    assert shaped["metadata"]["annotations"] == {"sidecar": "off"}
    [before], [container] = plain["spec"]["containers"], shaped["spec"]["containers"]
    assert container["resources"]["limits"] == {**before["resources"]["limits"], "cpu": "2"}
    assert container["resources"]["requests"] == before["resources"]["requests"]
    assert container["volumeMounts"] == [*before["volumeMounts"], CA_MOUNT]
    assert container["env"] == before["env"]


def test_limit_below_request_lowers_request_of_job() -> None:
    containers = [{"name": "fill", "resources": {"limits": {"cpu": "100m", "memory": "512Mi"}}}]
    pod = job_pod(model(cache={"size": "10Gi", "podTemplate": {"spec": {"containers": containers}}}))
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "100m", "memory": "512Mi"},
        "limits": {"cpu": "100m", "memory": "512Mi"},
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"restartPolicy": "Never"}, "podTemplate.spec.restartPolicy: Daybreak owns this field"),
        ({"containers": [{"name": "fill", "image": "a"}]}, "use spec.runtime.image"),
        ({"containers": [{"name": "fill", "command": ["a"]}]}, "command: Daybreak owns this field"),
        (
            {
                "volumes": [CA],
                "containers": [{"name": "fill", "volumeMounts": [{"name": "ca", "mountPath": "/claim"}]}],
            },
            "mountPath: /claim may not be covered",
        ),
        ({"containers": [{"name": "fil"}]}, "did you mean fill?"),
        ({"containers": [{"name": "fill", "volumeMounts": [CA_MOUNT]}]}, "the pod has no volume ca"),
    ],
)
def test_invalid_pod_template_of_job_is_rejected(spec: dict[str, Any], message: str) -> None:
    svc = service(model(cache={"size": "10Gi", "podTemplate": {"spec": spec}}))
    [problem] = problems(svc)
    assert problem.startswith("spec.models[0].cache.podTemplate.spec.")
    assert message in problem


def test_job_template_change_needs_no_new_ray_pods() -> None:
    containers = [{"name": "fill", "resources": {"limits": {"cpu": "2"}}}]
    plain = service(model(cache={"size": "10Gi"}))
    shaped = service(model(cache={"size": "10Gi", "podTemplate": {"spec": {"containers": containers}}}))
    assert wishes(plain) == wishes(shaped)
