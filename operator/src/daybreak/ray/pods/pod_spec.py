"""What the head and the worker pods have in common."""

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
"""User of the Ray containers: what Ray's own images and Daybreak's use."""
CACHE_DIRECTORY = volume_names.CACHE_DIRECTORY
"""Downloaded weights and compiled kernels. A volume of the user's own at this path replaces Daybreak's
emptyDir, and then outlives the pod."""

COMPILED_DIRECTORY = f"{CACHE_DIRECTORY}/compiled"
"""Compiled kernels and what was tuned alone: what may be shared by pods that write at the same time."""
COMPILERS = {
    "CUDA_CACHE_PATH": f"{COMPILED_DIRECTORY}/cuda",
    "FLASHINFER_WORKSPACE_BASE": COMPILED_DIRECTORY,
    "TORCHINDUCTOR_CACHE_DIR": f"{COMPILED_DIRECTORY}/inductor",
    "TRITON_CACHE_DIR": f"{COMPILED_DIRECTORY}/triton",
    "VLLM_CACHE_ROOT": f"{COMPILED_DIRECTORY}/vllm",
}
"""Where the driver, FlashInfer, torch, Triton and vLLM keep what they have compiled and tuned: by default
below the home directory and /tmp, which go with the container."""
NO_DEVICES = {"NVIDIA_VISIBLE_DEVICES": "void"}
"""For pods that have the image of GPU workers and ask for no GPU: the image asks for all, and gets them where
NVIDIA's runtime is the nodes' default."""
_COMPILED_VOLUME = f"{volume_names.VOLUME_PREFIX}compiled"

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
"""Nothing is reported to anybody."""


def container_security() -> dict[str, Any]:
    """What the restricted Pod Security Standard asks of a container.

    The root file system stays writable: Ray, Triton and FlashInfer write below the home directory, whose
    place only the image knows.
    """
    return merge_template.restricted()


def pod_security(platform: Platform) -> dict[str, Any]:
    """What the restricted Pod Security Standard asks of a pod."""
    users: dict[str, Any] = {
        "runAsUser": USER_ID,
        "fsGroup": USER_ID,
        # Volumes with hundreds of gigabytes of weights are not walked through at every start.
        "fsGroupChangePolicy": "OnRootMismatch",
    }
    return {
        "runAsNonRoot": True,
        **({} if platform.assigned_users else users),
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def memory_place(size: str) -> Place:
    """Shared memory of a size, at /dev/shm: Ray's object store and the engine's processes meet there."""
    return Place(
        {"name": volume_names.SHARED_MEMORY_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": size}},
        {"name": volume_names.SHARED_MEMORY_VOLUME, "mountPath": "/dev/shm"},  # noqa: S108 - the kernel's own name for it
    )


def _directory_place(name: str, path: str) -> Place:
    return Place({"name": name, "emptyDir": {}}, {"name": name, "mountPath": path})


def log_place() -> Place:
    """Ray's session directory: logs and sockets."""
    return _directory_place(volume_names.LOG_VOLUME, "/tmp/ray")  # noqa: S108 - where Ray keeps its session


def cache_place() -> Place:
    """Downloaded weights and compiled kernels."""
    return _directory_place(volume_names.CACHE_VOLUME, CACHE_DIRECTORY)


def compiled_place(claim: str, directory: str) -> Place:
    """A directory of a claim, for what engines compile; weights that a pod fetches stay out of it."""
    return Place(
        {"name": _COMPILED_VOLUME, "persistentVolumeClaim": {"claimName": claim}},
        {"name": _COMPILED_VOLUME, "mountPath": COMPILED_DIRECTORY, "subPath": directory},
    )


def service_account(workload: RayWorkload) -> str:
    """Name of the pods' ServiceAccount: the user's own, or Daybreak's."""
    return workload.runtime.service_account_name or names.service_account(workload.name)


def environment(
    workload: RayWorkload, own: dict[str, str], secret: Iterable[dict[str, Any]] = ()
) -> list[Any]:
    """Variables of a Ray container, each name once.

    The service's own `runtime.env` overrides Daybreak's defaults; what belongs to one model (`secret`)
    overrides both.
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
    """Template of a Ray pod, or of one with an engine of its own, whose container then has another name.

    `requests` are limits too, except for `cpu`: a core that nobody else wants may be used. A place whose
    path the user mounts something else at (`own_mounts`, `overlay`) is left to the user. `claim` is the
    ResourceClaimTemplate of its accelerators.
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
    """Limits of a container: a core that nobody else wants may be used."""
    return {name: quantity for name, quantity in requests.items() if name != "cpu"}


def _placement(
    runtime: Runtime, node_selector: dict[str, str], tolerations: Iterable[Toleration]
) -> dict[str, Any]:
    """Where a pod may stand, and what comes before it; without what is not asked for."""
    found = {
        "imagePullSecrets": [plain(secret) for secret in runtime.image_pull_secrets],
        "priorityClassName": runtime.priority_class_name or "",
        "nodeSelector": dict(node_selector),
        "tolerations": [plain(toleration) for toleration in tolerations],
    }
    return {name: value for name, value in found.items() if value}


def _with_tolerations_noted(whole: dict[str, Any]) -> dict[str, Any]:
    """The template with a digest of its tolerations.

    KubeRay leaves tolerations out when it looks for changes: by themselves they would never reach a Ray
    cluster that is there, whose pods may be waiting for just them.
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
