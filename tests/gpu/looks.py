"""How the GPU tests look at what there is."""

import json
import re
from collections import Counter
from typing import Any

import yaml

from cluster import paths
from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.objects.llmservice import condition

GPU = "nvidia.com/gpu"
TOLERATED = [{"key": GPU, "operator": "Exists"}]
"""Lets a pod onto GPU nodes with the usual taint."""
SAMPLES = paths.REPOSITORY / "manifests" / "samples"


def sample(file: str) -> dict[str, Any]:
    """Return the LLMService of a sample."""
    manifest: dict[str, Any] = yaml.safe_load((SAMPLES / f"{file}.yaml").read_text())
    return manifest


def service(name: str, *models: dict[str, Any]) -> dict[str, Any]:
    """Return an LLMService with these models."""
    metadata = {"name": name}
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": metadata,
        "spec": {"models": list(models)},
    }


def big(**fields: Any) -> dict[str, Any]:
    """Return a model whose replicas take eight GPUs on one node."""
    accelerator = {"tolerations": TOLERATED}
    return {
        "name": "big",
        "source": "hf://o/big",
        "parallelism": {"tensor": 8},
        "accelerator": accelerator,
        **fields,
    }


def small(**accelerator: Any) -> dict[str, Any]:
    """Return a model whose replicas take one GPU."""
    return {"name": "small", "source": "hf://o/small", "accelerator": accelerator}


def pods(admin: Admin, name: str, role: str = "worker") -> list[Any]:
    """Return the worker pods (or heads) of a service that are not being deleted."""
    found = admin.list(
        "Pod",
        labelSelector=f"{names.owner_selector(name)},ray.io/node-type={role}",
    )
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def placed(admin: Admin, name: str, count: int) -> list[Any]:
    """Return the worker pods of a service, once there are `count` and each runs on a node."""

    def look() -> list[Any]:
        found = pods(admin, name)
        there = [pod for pod in found if pod["status"].get("phase") == "Running"]
        return there if len(there) == len(found) == count else []

    try:
        return eventually(f"{count} worker pods of {name} on nodes", look)
    except AssertionError as error:
        message = (admin.get("LLMService", name) or {}).get("status")
        raise AssertionError(f"{error}; status: {json.dumps(message)}") from None


def node_of(pod: Any) -> str:
    """Return the name of a pod's node, or an empty string if it has none."""
    return str(pod["spec"].get("nodeName") or "")


def gpus(pod: Any) -> int:
    """Return the number of GPUs that a pod requests."""
    return sum(
        int(container["resources"].get("limits", {}).get(GPU, 0)) for container in pod["spec"]["containers"]
    )


def overbooked(admin: Admin) -> list[str]:
    """Return nodes whose GPUs are overcommitted by pods of all namespaces."""
    held: Counter[str] = Counter()
    for pod in admin.request("GET", "/api/v1/pods")["items"]:
        held[node_of(pod)] += gpus(pod) if node_of(pod) else 0
    return [
        node["metadata"]["name"]
        for node in admin.list("Node")
        if held[node["metadata"]["name"]] > int(node["status"]["allocatable"].get(GPU, 0))
    ]


def llm_config(admin: Admin, name: str, model: int = 0) -> Any:
    """Return the configuration of a model that Ray Serve LLM receives."""
    config = yaml.safe_load(admin.get("RayService", name)["spec"]["serveConfigV2"])
    return config["applications"][0]["args"]["llm_configs"][model]


def bundles(config: Any) -> list[dict[str, float]]:
    """Return the bundles of one replica's placement group, as Ray Serve LLM makes them.

    One for each of the engine's workers. Ray adds what the replica actor itself asks for, one core by
    default, to the first.
    """
    engine = config["engine_kwargs"]
    count = engine.get("tensor_parallel_size", 1) * engine.get("pipeline_parallel_size", 1)
    made = [dict(config["placement_group_config"]["bundle_per_worker"]) for _ in range(count)]
    made[0]["CPU"] += 1
    return made


def offer(pod: Any) -> dict[str, float]:
    """Return the resources that a worker pod offers Ray, from the command that KubeRay gave it."""
    [command] = pod["spec"]["containers"][0]["args"]
    resources = re.search(r"--resources='([^']*)'", command)
    assert resources is not None, command
    offered: dict[str, float] = json.loads(resources[1])
    for resource, option in (("CPU", "num-cpus"), ("GPU", "num-gpus")):
        amount = re.search(rf"--{option}=(\S+)", command)
        assert amount is not None, command
        offered[resource] = float(amount[1])
    return offered


def together(some: list[dict[str, float]]) -> dict[str, float]:
    """Return the sum of bundles."""
    total: Counter[str] = Counter()
    for each in some:
        total.update(each)
    return dict(total)


def read_message(
    admin: Admin, name: str, kind: str, status: str, *words: str, reason: str = "", of: str = "LLMService"
) -> str:
    """Return the message of a condition, once it has that status (and reason) and contains these words."""

    def look() -> str:
        found = condition(admin.get(of, name), kind)
        message = str(found.get("message", ""))
        right = found.get("status") == status and reason in ("", found.get("reason"))
        return message if right and all(word in message for word in words) else ""

    try:
        return eventually(f"{kind}={status} of {name} with {words}", look)
    except AssertionError as error:
        observed = (admin.get(of, name).get("status") or {}).get("conditions")
        raise AssertionError(f"{error}; conditions: {json.dumps(observed, indent=1)}") from None


def everything_gone(admin: Admin) -> bool:
    """Return True if the namespace has no service, no KubeRay object and no pod."""
    kinds = ("LLMService", "ServeApplication", "RayService", "RayCluster", "Pod")
    return not any(admin.list(kind) for kind in kinds)
