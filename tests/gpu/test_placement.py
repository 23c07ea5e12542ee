"""Placement of the samples' replicas: real objects, a real scheduler, fake nodes (see `conftest.py`)."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import ControlPlane
from daybreak.api.common.names import worker_group
from tests.api.admin import Admin, eventually
from tests.gpu.looks import (
    GPU,
    bundles,
    gpus,
    llm_config,
    node_of,
    offer,
    overbooked,
    placed,
    pods,
    read_message,
    sample,
    together,
)
from tests.gpu.nodes import H100, PRODUCT, Nodes, h100

pytestmark = [pytest.mark.xdist_group("gpu"), pytest.mark.usefixtures("operator")]

TENSOR, PIPELINE, TWO, SINGLE = (
    "llama-70b-tensor-4",
    "pipeline-across-nodes",
    "two-models",
    "llama-8b-one-gpu",
)


def claim(plane: ControlPlane, namespace: str, name: str) -> None:
    """Create a PVC, bound to a dedicated volume. No pod mounts it here."""
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{name}"},
        "spec": {
            "capacity": {"storage": "1Ti"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "hostPath": {"path": "/nowhere"},
            "claimRef": {"namespace": namespace, "name": name},
        },
    }
    desired = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": f"{namespace}-{name}",
            "resources": {"requests": {"storage": "1Ti"}},
        },
    }
    plane.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": [volume, desired]}))


def groups(admin: Admin, name: str) -> dict[str, Any]:
    """Return the worker groups of the service's one Ray cluster, by name."""
    [cluster] = admin.list(
        "RayCluster", labelSelector=f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={name}"
    )
    return {group["groupName"]: group for group in cluster["spec"]["workerGroupSpecs"]}


def bounds(admin: Admin, name: str) -> dict[str, tuple[int, int]]:
    """Return the minimum and maximum number of pods of each worker group, as KubeRay has them."""
    return {group: (spec["minReplicas"], spec["maxReplicas"]) for group, spec in groups(admin, name).items()}


def test_tensor_parallel_replica_is_placed_on_one_node(
    admin: Admin, plane: ControlPlane, nodes: Nodes, answers: Path
) -> None:
    (answers / f"{admin.namespace}.llama-70b").write_text("")
    admin.create(sample(TENSOR))
    # The sample says that it needs this claim. The scheduler asks for it, and its words are handed on.
    read_message(admin, "llama-70b", "Stalled", "True", 'persistentvolumeclaim "model-cache" not found')
    claim(plane, admin.namespace, "model-cache")
    [first] = placed(admin, "llama-70b", 1)
    read_message(admin, "llama-70b", "Ready", "True", reason="Serving")
    read_message(admin, "llama-70b", "Stalled", "False")

    assert gpus(first) == 4
    assert node_of(first) in ("h100-0", "h100-1")
    [head] = pods(admin, "llama-70b", "head")
    assert gpus(head) == 0
    config = llm_config(admin, "llama-70b")
    assert config["placement_group_config"]["strategy"] == "STRICT_PACK"
    replica = bundles(config)
    assert [bundle["GPU"] for bundle in replica] == [1, 1, 1, 1]
    need, has = together(replica), offer(first)
    assert all(amount <= has[resource] for resource, amount in need.items()), (need, has)
    assert has["GPU"] == need["GPU"], "a replica's pod has no GPU that it does not use"

    plane.kubectl("scale", "llm/llama-70b", "--replicas=2", "-n", admin.namespace)
    two = placed(admin, "llama-70b", 2)
    assert {node_of(pod) for pod in two} == {"h100-0", "h100-1"}
    assert [gpus(pod) for pod in two] == [4, 4]
    assert overbooked(admin) == []

    plane.kubectl("scale", "llm/llama-70b", "--replicas=3", "-n", admin.namespace)
    words = ("2 of 3 replicas ready", "a pod cannot be scheduled: 0/4 nodes", f"Insufficient {GPU}")
    read_message(admin, "llama-70b", "Reconciling", "True", *words)
    read_message(admin, "llama-70b", "Ready", "True")
    status = admin.get("LLMService", "llama-70b")["status"]
    assert (status["replicas"], status["accelerators"]) == (2, 8)
    [waiting] = [pod for pod in pods(admin, "llama-70b") if not node_of(pod)]
    assert waiting["status"]["phase"] == "Pending"

    nodes.add(h100("h100-2", 4))
    assert "h100-2" in {node_of(pod) for pod in placed(admin, "llama-70b", 3)}
    read_message(admin, "llama-70b", "Reconciling", "False")
    status = admin.get("LLMService", "llama-70b")["status"]
    assert (status["replicas"], status["accelerators"]) == (3, 12)


def test_a_pipeline_has_a_pod_for_each_stage(admin: Admin, nodes: Nodes) -> None:
    nodes.add(h100("h100-big-0", 8))
    admin.create(sample(PIPELINE))
    read_message(
        admin, "llama-405b", "Schedulable", "False", "needs 2 pods of", f"8 {GPU} each", "capacity for 1"
    )
    eventually("both stages asked for", lambda: len(pods(admin, "llama-405b")) == 2)

    nodes.add(h100("h100-big-1", 8))
    stages = placed(admin, "llama-405b", 2)
    read_message(admin, "llama-405b", "Schedulable", "True", reason="NodesFit")
    assert {node_of(pod) for pod in stages} == {"h100-big-0", "h100-big-1"}
    assert [gpus(pod) for pod in stages] == [8, 8]
    # KubeRay's own would ask for a Serve proxy, which the second stage does not have.
    probes = [pod["spec"]["containers"][0]["readinessProbe"]["httpGet"] for pod in stages]
    assert [probe["path"] for probe in probes] == ["/api/healthz"] * 2
    config = llm_config(admin, "llama-405b")
    assert config["placement_group_config"]["strategy"] == "PACK"
    replica = bundles(config)
    assert len(replica) == 16
    # The first stage also has the replica actor's core; any pod may become it.
    for stage, pod in zip((replica[:8], replica[8:]), stages, strict=True):
        need, has = together(stage), offer(pod)
        assert all(amount <= has[resource] for resource, amount in need.items()), (need, has)
        assert has["GPU"] == need["GPU"]
    (bound,) = bounds(admin, "llama-405b").values()
    assert bound == (2, 2)


def test_two_models_have_groups_and_bounds_of_their_own(admin: Admin, plane: ControlPlane) -> None:
    chat, embedding = worker_group("qwen2.5-7b"), worker_group("bge-m3")
    before = set(everything(plane, admin.namespace))
    admin.create(sample(TWO))
    two = placed(admin, "assistant", 2)
    assert {pod["metadata"]["labels"]["ray.io/group"] for pod in two} == {chat, embedding}
    assert [gpus(pod) for pod in two] == [1, 1]
    assert bounds(admin, "assistant") == {chat: (1, 2), embedding: (1, 1)}
    [cluster] = admin.list("RayCluster")

    # A replica asks for its own group's resource, so Ray cannot place it in the other model's pods.
    for index, group in enumerate((chat, embedding)):
        [own] = [pod for pod in two if pod["metadata"]["labels"]["ray.io/group"] == group]
        [other] = [pod for pod in two if pod is not own]
        need = together(bundles({"engine_kwargs": {}, **llm_config(admin, "assistant", index)}))
        assert all(amount <= offer(own)[resource] for resource, amount in need.items())
        assert not need.keys() <= offer(other).keys()

    plane.kubectl("scale", "llm/assistant", "--replicas=2", "-n", admin.namespace)
    four = placed(admin, "assistant", 4)
    assert bounds(admin, "assistant") == {chat: (2, 2), embedding: (2, 2)}
    assert {pod["metadata"]["uid"] for pod in two} <= {pod["metadata"]["uid"] for pod in four}
    assert overbooked(admin) == []

    # Fewer pods are the autoscaler's work, a part of Ray, which does not run here: the bounds are ours. A pod
    # that is there may serve, so the upper bound waits until it has gone.
    admin.merge("LLMService", "assistant", {"spec": {"replicas": None}})
    with_pods = {chat: (1, 2), embedding: (1, 2)}
    eventually("fewer are enough", lambda: bounds(admin, "assistant") == with_pods)
    fewer = [{"op": "replace", "path": "/spec/workerGroupSpecs/1/replicas", "value": 1}]
    idle = next(pod for pod in four if pod["metadata"]["labels"]["ray.io/group"] == embedding)
    leave = {"workersToDelete": [idle["metadata"]["name"]]}
    fewer.append({"op": "add", "path": "/spec/workerGroupSpecs/1/scaleStrategy", "value": leave})
    name = cluster["metadata"]["name"]
    plane.kubectl("patch", "raycluster", name, "-n", admin.namespace, "--type=json", "-p", json.dumps(fewer))
    own_bounds = {chat: (1, 2), embedding: (1, 1)}
    eventually("the models' own bounds again", lambda: bounds(admin, "assistant") == own_bounds)
    [same] = admin.list("RayCluster")
    assert same["metadata"]["uid"] == cluster["metadata"]["uid"]

    admin.delete("LLMService", "assistant")
    eventually("nothing left", lambda: set(everything(plane, admin.namespace)) == before)


def everything(plane: ControlPlane, namespace: str) -> list[str]:
    """Return the names of all objects of every kind in a namespace, events aside."""
    kinds = plane.kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    lasting = ",".join(kind for kind in kinds if not kind.startswith("events"))
    return plane.kubectl("get", lasting, "-n", namespace, "-o", "name").split()


def test_single_gpu_replica_references_token_and_never_exposes_value(
    admin: Admin, plane: ControlPlane, operator: Any
) -> None:
    token = "hf_never_to_be_seen"  # noqa: S105 -- nobody's
    plane.kubectl(
        "create", "secret", "generic", "hugging-face", f"--from-literal=token={token}", "-n", admin.namespace
    )
    admin.create(sample(SINGLE))
    [worker] = placed(admin, "llama-8b", 1)
    [head] = pods(admin, "llama-8b", "head")
    assert node_of(worker) == "l4-0"
    assert gpus(worker) == 1
    config = llm_config(admin, "llama-8b")
    [bundle] = bundles(config)
    assert bundle.items() <= offer(worker).items()
    assert "tensor_parallel_size" not in config["engine_kwargs"]

    reference = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hugging-face", "key": "token"}}}
    assert reference in worker["spec"]["containers"][0]["env"]
    assert "hugging-face" not in json.dumps(head["spec"]), "the head reads no weights"
    observed = [admin.list(kind) for kind in ("LLMService", "RayService", "RayCluster", "Pod", "Event")]
    assert token not in json.dumps(observed)
    assert token not in operator.log()


@pytest.mark.usefixtures("serve_by_pods")
def test_pod_on_tainted_node_waits_until_toleration_is_added(admin: Admin) -> None:
    """The sample tolerates nothing, and these nodes bear the usual taint `nvidia.com/gpu`.

    In most managed clusters the admission plugin ExtendedResourceToleration adds the toleration, so the fit
    check lets it pass. This API server, like the plain one, runs without that plugin: then the pod waits, and
    the scheduler's message names the missing toleration.
    """
    manifest = sample(SINGLE)
    manifest["spec"]["models"][0]["accelerator"] = {"nodeSelector": {PRODUCT: H100}}
    admin.create(manifest)
    read_message(admin, "llama-8b", "Ready", "False", "untolerated taint", reason="Unschedulable")
    tolerations = [{"key": GPU, "operator": "Exists"}]
    manifest["spec"]["models"][0]["accelerator"]["tolerations"] = tolerations
    admin.merge("LLMService", "llama-8b", {"spec": manifest["spec"]})

    # KubeRay makes a new Ray cluster for it, and removes the one that waits a minute later.
    def on_the_node() -> bool:
        return any(node_of(pod).startswith("h100-") for pod in pods(admin, "llama-8b"))

    eventually("a pod on an H100", on_the_node)


def test_image_and_claim_are_mounted_and_bucket_uses_cache_folder(admin: Admin, plane: ControlPlane) -> None:
    # What the sample says that it needs: the account that may read the bucket, and the claim.
    admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "model-reader"}})
    claim(plane, admin.namespace, "models")
    admin.create(sample("sources"))
    workers = {pod["metadata"]["labels"]["ray.io/group"]: pod for pod in placed(admin, "sources", 3)}
    volumes = {
        group: {volume["name"]: volume for volume in pod["spec"]["volumes"]} for group, pod in workers.items()
    }
    mounts = {
        group: {mount["name"]: mount for mount in pod["spec"]["containers"][0]["volumeMounts"]}
        for group, pod in workers.items()
    }
    reference = {"reference": "registry.example.com/models/qwen2.5-7b:1.0", "pullPolicy": "IfNotPresent"}
    assert volumes["from-image"]["daybreak-model"]["image"] == reference
    claimed = {"claimName": "models", "readOnly": True}
    assert volumes["from-claim"]["daybreak-model"]["persistentVolumeClaim"] == claimed
    assert "daybreak-model" not in volumes["from-bucket"]
    config = yaml.safe_load(admin.get("RayService", "sources")["spec"]["serveConfigV2"])
    reported = {
        each["model_loading_config"]["model_id"]: each["model_loading_config"]["model_source"]
        for each in config["applications"][0]["args"]["llm_configs"]
    }
    for group, path in (("from-image", "weights"), ("from-claim", "qwen2.5-7b")):
        mount = mounts[group]["daybreak-model"]
        assert mount["readOnly"]
        assert reported[group] == f"{mount['mountPath']}/{path}"
    assert reported["from-bucket"].startswith("/var/cache/daybreak/buckets/s3-models.example.com-qwen2.5-7b-")
    for pod in workers.values():
        assert pod["spec"]["serviceAccountName"] == "model-reader"
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
        assert {"name": "AWS_REGION", "value": "eu-central-1"} in pod["spec"]["containers"][0]["env"]
        assert gpus(pod) == 1
