"""Claims and Jobs of models whose weights are kept in a claim, and the claim for what engines compile."""

import json
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.llmservice.definition import NAME_LIMIT
from daybreak.kinds.llmservice.objects.desired import desired
from tests.unit.ray.services import PLATFORM, model, service

TOKEN = {"secretKeyRef": {"name": "hub", "key": "token"}}


def made(kind: str, *models: dict[str, Any], **spec: Any) -> list[dict[str, Any]]:
    """Objects of a kind, while the weights of every model are to be copied."""
    svc = service(*models, **spec)
    unfilled = [each.name for each in svc.spec.models]
    return [each for each in desired(svc, PLATFORM, None, unfilled=unfilled) if each["kind"] == kind]


def job(*models: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """The one Job."""
    [found] = made("Job", *models, **spec)
    return found


def order(found: dict[str, Any]) -> dict[str, Any]:
    """What the program is told."""
    [container] = found["spec"]["template"]["spec"]["containers"]
    by_name = {each["name"]: each.get("value") for each in container["env"]}
    told: dict[str, Any] = json.loads(by_name["DAYBREAK_FILL"])
    return told


def worker(*models: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Spec of the first model's worker pods."""
    [ray_service] = made("RayService", *models, **spec)
    found: dict[str, Any] = ray_service["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]
    return found


def variables(pod: dict[str, Any]) -> dict[str, Any]:
    """Environment of a pod's first container."""
    return {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}


def test_a_job_and_a_claim_come_before_the_ray_service() -> None:
    svc = service(model(cache={"size": "10Gi"}))
    kinds = [each["kind"] for each in desired(svc, PLATFORM, None, unfilled=["m"])]
    assert kinds[-4:] == ["PersistentVolumeClaim", "Job", "Service", "RayService"]


def test_a_claim_that_is_there_is_left_to_its_owner() -> None:
    assert made("PersistentVolumeClaim", model(cache={"claimName": "models"})) == []


def test_without_need_there_is_no_job() -> None:
    svc = service(model(cache={"size": "10Gi"}))
    assert "Job" not in [each["kind"] for each in desired(svc, PLATFORM, None)]


def test_several_nodes_may_mount_the_claim_unless_it_is_said() -> None:
    [claim] = made("PersistentVolumeClaim", model(cache={"size": "10Gi"}))
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "10Gi"}},
    }
    own = {"size": "10Gi", "accessMode": "ReadWriteOnce", "storageClassName": "fast"}
    [claim] = made("PersistentVolumeClaim", model(cache=own))
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["storageClassName"] == "fast"


def test_workers_read_what_the_job_writes() -> None:
    cached = model(source="s3://bucket/a", cache={"claimName": "models"})
    told = order(job(cached))
    pod = worker(cached)
    assert {"claimName": "models", "readOnly": True} in [
        each.get("persistentVolumeClaim") for each in pod["volumes"]
    ]
    [mount] = [each for each in pod["containers"][0]["volumeMounts"] if each["mountPath"] == "/models/m"]
    assert mount["readOnly"] is True
    [ray_service] = made("RayService", cached)
    assert f"model_source: /models/m/{told['directory']}\n" in ray_service["spec"]["serveConfigV2"]
    assert told["source"] == "s3://bucket/a"


def test_the_token_goes_to_the_job_alone() -> None:
    cached = model(token=TOKEN, cache={"size": "10Gi"})
    [container] = job(cached)["spec"]["template"]["spec"]["containers"]
    assert {"name": "HF_TOKEN", "valueFrom": TOKEN} in container["env"]
    assert "HF_TOKEN" not in json.dumps(made("RayService", cached))


def test_a_job_tells_the_operator_how_far_it_is() -> None:
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
    """What a policy's rule opens."""
    return [port["port"] for port in rule.get("ports", ())]


def test_every_source_and_revision_has_a_directory_of_its_own() -> None:
    cached = [
        model(source="hf://a/b", cache={"size": "1Gi"}),
        model(source="hf://a/b", revision="1", cache={"size": "1Gi"}),
        model(source="hf://a/c", cache={"size": "1Gi"}),
        model(source="s3://a/b", cache={"size": "1Gi"}),
    ]
    assert len({order(job(each))["directory"] for each in cached}) == len(cached)


def test_only_a_claim_of_its_own_is_tidied() -> None:
    assert order(job(model(cache={"size": "1Gi"})))["sole"] is True
    assert order(job(model(cache={"claimName": "models"})))["sole"] is False


def test_a_job_that_says_something_else_has_another_name() -> None:
    cached = model(cache={"size": "1Gi"})
    names_ = {
        job(cached)["metadata"]["name"],
        job(cached, runtime={"image": "own:1"})["metadata"]["name"],
        job(cached, runtime={"env": [{"name": "AWS_REGION", "value": "x"}]})["metadata"]["name"],
        job({**cached, "token": TOKEN})["metadata"]["name"],
    }
    assert len(names_) == 4
    assert job(cached) == job(cached)


def test_the_longest_name_of_a_job_is_a_label_still() -> None:
    assert len(job(model(cache={"size": "1Gi"}), name="a" * NAME_LIMIT)["metadata"]["name"]) <= 63


def test_a_volume_of_one_node_is_filled_where_the_model_runs() -> None:
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
def test_else_it_is_filled_anywhere(cache: dict[str, Any]) -> None:
    """Not on the accelerators' nodes: an autoscaler would bring one for a download."""
    pod = job(model(accelerator={"nodeSelector": {"pool": "gpu"}}, cache=cache))["spec"]["template"]["spec"]
    assert not {"nodeSelector", "tolerations", "affinity"} & set(pod)


def test_a_job_asks_for_no_accelerator_and_sees_none() -> None:
    pod = job(model(cache={"size": "1Gi"}))["spec"]["template"]["spec"]
    assert set(pod["containers"][0]["resources"]["requests"]) == {"cpu", "memory"}
    assert variables(pod)["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_a_job_has_what_the_ray_pods_have() -> None:
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


def test_what_engines_compile_is_kept_by_model() -> None:
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
    # Weights that a pod fetches itself are no business of other pods.
    assert variables(pod)["XDG_CACHE_HOME"] == "/var/cache/daybreak"


def test_the_head_compiles_nothing() -> None:
    [ray_service] = made("RayService", runtime={"compileCache": {"claimName": "c"}})
    head = ray_service["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]
    assert "compiled" not in json.dumps(head)
