"""Common parts of head and worker pods."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from daybreak.api.common import names, volume_names
from daybreak.api.pods.pod_template import RAY_CONTAINER, PodTemplate
from daybreak.api.ray.runtime import Runtime
from daybreak.api.ray.workload import RayWorkload
from daybreak.api.schema.kubernetes_types import NamedVolume, Toleration, VolumeMount
from daybreak.platform import Platform
from daybreak.ray.inputs.place import Place
from daybreak.ray.pods import merge_template

USER_ID = 1000
"""User ID of the Ray containers in Ray's and Daybreak's images."""
CACHE_DIRECTORY = volume_names.CACHE_DIRECTORY
"""Directory for downloaded weights and compiled kernels. A user's volume at this path replaces Daybreak's
emptyDir, and outlives the pod."""

COMPILED_DIRECTORY = f"{CACHE_DIRECTORY}/compiled"
"""Directory for compiled kernels and tuning results only, which pods may share and write concurrently."""
COMPILERS = {
    "CUDA_CACHE_PATH": f"{COMPILED_DIRECTORY}/cuda",
    "FLASHINFER_WORKSPACE_BASE": COMPILED_DIRECTORY,
    "TORCHINDUCTOR_CACHE_DIR": f"{COMPILED_DIRECTORY}/inductor",
    "TRITON_CACHE_DIR": f"{COMPILED_DIRECTORY}/triton",
    "VLLM_CACHE_ROOT": f"{COMPILED_DIRECTORY}/vllm",
}
"""Cache directories of the driver, FlashInfer, torch, Triton and vLLM for compiled and tuned kernels. The
default directories, below the home directory and /tmp, disappear with the container."""
NO_DEVICES = {"NVIDIA_VISIBLE_DEVICES": "void"}
"""Variables for pods that use the image of GPU workers without a GPU. By default the image requests all GPUs,
and gets them if NVIDIA's runtime is the nodes' default."""
_COMPILED_VOLUME = f"{volume_names.VOLUME_PREFIX}compiled"

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
"""Variables that disable usage reports."""


def container_security() -> dict[str, Any]:
    """Return the container security context that the restricted Pod Security Standard requires.

    The root file system stays writable: Ray, Triton and FlashInfer write below the home directory, and only
    the image knows its path.
    """
    return merge_template.restricted()


def pod_security(platform: Platform) -> dict[str, Any]:
    """Return the pod security context that the restricted Pod Security Standard requires."""
    users: dict[str, Any] = {
        "runAsUser": USER_ID,
        "fsGroup": USER_ID,
        # Do not change the owner of volumes with hundreds of gigabytes of weights at every start.
        "fsGroupChangePolicy": "OnRootMismatch",
    }
    return {
        "runAsNonRoot": True,
        **({} if platform.assigned_users else users),
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def memory_place(size: str) -> Place:
    """Return shared memory at /dev/shm, for Ray's object store and the engine's processes."""
    return Place(
        {"name": volume_names.SHARED_MEMORY_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": size}},
        {"name": volume_names.SHARED_MEMORY_VOLUME, "mountPath": "/dev/shm"},  # noqa: S108 - the kernel's own name for it
    )


def _directory_place(name: str, path: str) -> Place:
    return Place({"name": name, "emptyDir": {}}, {"name": name, "mountPath": path})


def log_place() -> Place:
    """Return the volume of Ray's session directory, with logs and sockets."""
    return _directory_place(volume_names.LOG_VOLUME, "/tmp/ray")  # noqa: S108 - where Ray keeps its session


def cache_place() -> Place:
    """Return the volume for downloaded weights and compiled kernels."""
    return _directory_place(volume_names.CACHE_VOLUME, CACHE_DIRECTORY)


def compiled_place(claim: str, directory: str) -> Place:
    """Return a directory of a PVC for compiled kernels; weights that a pod fetches are stored elsewhere."""
    return Place(
        {"name": _COMPILED_VOLUME, "persistentVolumeClaim": {"claimName": claim}},
        {"name": _COMPILED_VOLUME, "mountPath": COMPILED_DIRECTORY, "subPath": directory},
    )


def service_account(workload: RayWorkload) -> str:
    """Return the name of the pods' ServiceAccount: the user's, or Daybreak's."""
    return workload.runtime.service_account_name or names.service_account(workload.name)


def environment(
    workload: RayWorkload, own: dict[str, str], secret: Iterable[dict[str, Any]] = ()
) -> list[Any]:
    """Return the variables of a Ray container, each name once.

    The service's `runtime.env` overrides Daybreak's defaults; variables of one model (`secret`) override
    both.
    """
    variables: dict[str, dict[str, Any]] = {
        name: {"name": name, "value": value} for name, value in (_QUIET | own).items()
    }
    variables.update({variable.name: plain(variable) for variable in workload.runtime.env})
    variables.update({variable["name"]: variable for variable in secret})
    return list(variables.values())


def template(
    workload: RayWorkload,
    platform: Platform,
    *,
    component: str,
    image: str,
    labels: dict[str, str],
    ports: dict[str, int],
    env: list[Any],
    requests: dict[str, str],
    places: list[Place],
    volumes: tuple[dict[str, Any], ...] = (),
    own_volumes: Iterable[NamedVolume] = (),
    own_mounts: Iterable[VolumeMount] = (),
    claim: str | None = None,
    overlay: PodTemplate | None = None,
    node_selector: dict[str, str],
    tolerations: Iterable[Toleration],
    grace_seconds: int,
    container_name: str = "",
) -> dict[str, Any]:
    """Return the template of a Ray pod, or of a pod with another engine and another container name.

    `requests` are also limits, except for `cpu`, so that pods may use idle CPUs. If the user mounts another
    volume at the path of a place (`own_mounts`, `overlay`), the place is omitted. `claim` is the
    ResourceClaimTemplate of the pod's accelerators.
    """
    runtime = workload.runtime
    name, alias = (container_name, container_name) if container_name else (f"ray-{component}", RAY_CONTAINER)
    mounts = [plain(mount) for mount in own_mounts]
    taken = {mount["mountPath"].rstrip("/") for mount in mounts}
    taken |= merge_template.mounted(overlay, container=name, alias=alias)
    kept = [place for place in places if place.mount["mountPath"] not in taken]
    container: dict[str, Any] = {
        "name": name,
        "image": image,
        "imagePullPolicy": runtime.image_pull_policy,
        "env": env,
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
        "resources": {"requests": requests, "limits": _limits(requests)},
        "securityContext": container_security(),
        "volumeMounts": [*(place.mount for place in kept), *mounts],
    }
    spec: dict[str, Any] = {
        "serviceAccountName": service_account(workload),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(platform),
        "terminationGracePeriodSeconds": grace_seconds,
        "containers": [container],
        "volumes": [*(place.volume for place in kept), *volumes, *map(plain, own_volumes)],
    }
    if claim is not None:
        spec["resourceClaims"] = [{"name": names.ACCELERATOR_CLAIM, "resourceClaimTemplateName": claim}]
        container["resources"]["claims"] = [{"name": names.ACCELERATOR_CLAIM}]
    spec |= _placement(runtime, node_selector, tolerations)
    metadata: dict[str, Any] = {"labels": names.labels(workload.name, component) | labels}
    whole = merge_template.merged({"metadata": metadata, "spec": spec}, overlay, container=name, alias=alias)
    return _with_tolerations_noted(whole)


def _limits(requests: dict[str, str]) -> dict[str, str]:
    """Return the limits of a container without `cpu`, so that it may use idle CPUs."""
    return {name: quantity for name, quantity in requests.items() if name != "cpu"}


def _placement(
    runtime: Runtime, node_selector: dict[str, str], tolerations: Iterable[Toleration]
) -> dict[str, Any]:
    """Return the non-empty scheduling fields of a pod."""
    found = {
        "imagePullSecrets": [plain(secret) for secret in runtime.image_pull_secrets],
        "priorityClassName": runtime.priority_class_name or "",
        "nodeSelector": dict(node_selector),
        "tolerations": [plain(toleration) for toleration in tolerations],
    }
    return {name: value for name, value in found.items() if value}


def _with_tolerations_noted(whole: dict[str, Any]) -> dict[str, Any]:
    """Return the template with a digest of its tolerations as an annotation.

    KubeRay ignores tolerations when it looks for changes. Without the annotation, they would never reach an
    existing Ray cluster, and its pods may wait for exactly them.
    """
    tolerated = whole["spec"].get("tolerations")
    if not tolerated:
        return whole
    digest = hashlib.sha256(json.dumps(tolerated, sort_keys=True).encode()).hexdigest()[:12]
    whole["metadata"].setdefault("annotations", {})[names.TOLERATIONS_ANNOTATION] = digest
    return whole


def plain(value: BaseModel) -> dict[str, Any]:
    """Return a Kubernetes type as Kubernetes writes it."""
    written: dict[str, Any] = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return written
