"""A head before GPUs, from the image without CUDA: it starts, and Serve builds the models there.

Without a GPU, the worker pods are never scheduled. Everything that the head itself needs exists before them:
Serve's controller, the application built from the configuration, and the ingress.
"""

import copy
from typing import Any

from cluster.images import catalog
from story.objects.kubernetes import Kubernetes, eventually

NAME = "before-gpus"


def before_gpus(tiny_manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the LLMService, derived from the sample."""
    manifest = copy.deepcopy(tiny_manifest)
    manifest["metadata"] = {"name": NAME}
    spec = manifest["spec"]
    model = {"name": "gpu", "source": spec["models"][0]["source"]}
    model |= {"accelerator": {"kind": "gpu"}, "parallelism": {"tensor": 2}}
    spec["models"] = [model]
    spec["runtime"] = {"head": {"resources": {"cpu": "200m", "memory": "3Gi"}}}
    return manifest


def test_head_of_gpu_model_starts_from_cpu_image(
    kubernetes: Kubernetes, tiny: str, tiny_manifest: dict[str, Any]
) -> None:
    kubernetes.apply(before_gpus(tiny_manifest))
    try:
        deployments = eventually(
            lambda: serves(kubernetes),
            lambda observed: observed.get("OpenAiIngress") == "HEALTHY",
            minutes=10,
        )
        assert [state for name, state in deployments.items() if name != "OpenAiIngress"] == ["UPDATING"]
        found = images_of(kubernetes)
        assert found == {"head": catalog.references()["ray-cpu"], "worker": found["worker"]}
        assert found["worker"].startswith("daybreak-ray:")
    finally:
        kubernetes.delete("llm", NAME)


def serves(kubernetes: Kubernetes) -> dict[str, str]:
    """Return Serve's states of the deployments, from KubeRay's status."""
    status = (kubernetes.get("rayservice", NAME) or {}).get("status", {})
    found: dict[str, str] = {}
    for side in ("pendingServiceStatus", "activeServiceStatus"):
        for application in (status.get(side, {}).get("applicationStatuses") or {}).values():
            states = application.get("serveDeploymentStatuses") or {}
            found |= {name: state["status"] for name, state in states.items()}
    return found


def images_of(kubernetes: Kubernetes) -> dict[str, str]:
    """Return the images of the Ray containers, by the pod's role."""
    pods = (
        kubernetes.get("pods", "-l", f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={NAME}")
        or {}
    ).get("items", ())
    return {
        pod["metadata"]["labels"]["ray.io/node-type"]: pod["spec"]["containers"][0]["image"] for pod in pods
    }
