"""PVCs and Jobs of models whose weights are kept in a PersistentVolumeClaim.

A Job fills a PVC once. It has the image, the environment and the account of the Ray pods, and only the Job
has the token of the hub. The spec of a Job is immutable, so its name is a digest of the whole spec.
"""

import hashlib
import json
from collections.abc import Collection
from typing import Any

from daybreak.api.common import names, volume_names
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.pods.pod_template import FILL_CONTAINER
from daybreak.api.ray.cache import AccessMode, ModelCache
from daybreak.api.ray.model import Model
from daybreak.kinds.llmservice.objects.metadata import metadata
from daybreak.platform import Platform
from daybreak.pod_programs.text import program
from daybreak.ray import ports
from daybreak.ray.inputs.weights import environment
from daybreak.ray.pods import merge_template, pod_spec

Manifest = dict[str, Any]

COMPONENT = "cache"
"""Component label of the PVCs, the Jobs and their pods."""
_VOLUME = f"{volume_names.VOLUME_PREFIX}weights"
_ENDLESS = 2**31 - 1
"""Number of retries of a Job: the kubelet restarts the container, with growing pauses, until it succeeds."""
_RESOURCES = {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": "4Gi"}}
"""Resources of the copy container. Written data stays in the page cache, which the kernel reclaims when
needed."""
INPUTS = ("configMap", "csi", "downwardAPI", "hostPath", "nfs", "projected", "secret")
"""Kinds of volumes that any number of pods on any nodes can mount. A PVC could be bound to another node."""


def claims(svc: LLMService) -> list[Manifest]:
    """Return the PVCs that Daybreak creates for the service."""
    return [
        _claim(svc, model, model.cache)
        for model in svc.spec.models
        if model.cache is not None and model.cache.size is not None
    ]


def jobs(svc: LLMService, platform: Platform, unfilled: Collection[str]) -> list[Manifest]:
    """Return the Jobs of the models in `unfilled`."""
    return [
        _job(svc, model, model.cache, platform)
        for model in svc.spec.models
        if model.cache is not None and model.name in unfilled
    ]


def _claim(svc: LLMService, model: Model, desired: ModelCache) -> Manifest:
    spec: dict[str, Any] = {
        "accessModes": [_access_mode(desired).value],
        "resources": {"requests": {"storage": desired.size}},
    }
    if desired.storage_class_name is not None:
        spec["storageClassName"] = desired.storage_class_name
    found = metadata(svc, volume_names.cache_claim(svc.name, model.name), COMPONENT)
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": found, "spec": spec}


def _access_mode(desired: ModelCache) -> AccessMode:
    return desired.access_mode or AccessMode.READ_WRITE_MANY


def _job(svc: LLMService, model: Model, desired: ModelCache, platform: Platform) -> Manifest:
    labels = {names.MODEL_LABEL: names.worker_group(model.name)}
    claim = desired.claim(svc.name, model.name)
    directory = volume_names.cached_weights(model.source, model.revision)
    template = {
        "metadata": {"labels": names.labels(svc.name, COMPONENT) | labels},
        "spec": _pod(svc, model, desired, platform, claim, directory),
    }
    spec = {"backoffLimit": _ENDLESS, "template": _shaped(template, desired)}
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:10]
    found = metadata(svc, volume_names.cache_job(svc.name, digest), COMPONENT)
    found["labels"] |= labels
    found["annotations"] = {names.CACHE_ANNOTATION: f"{claim}/{directory}"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": found, "spec": spec}


def _shaped(template: dict[str, Any], desired: ModelCache) -> dict[str, Any]:
    """Return the pod template with the user's additions."""
    if desired.pod_template is None:
        return template
    given = desired.pod_template.container(FILL_CONTAINER).get("resources", {})
    whole = merge_template.merged(
        template, desired.pod_template, container=FILL_CONTAINER, alias=FILL_CONTAINER
    )
    whole["spec"]["containers"][0]["resources"] = merge_template.sized(_RESOURCES, given)
    return whole


def _inputs(svc: LLMService, model: Model) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the volumes and mounts of the model's Ray pods that the Job has as well."""
    runtime = svc.spec.runtime
    volumes = [
        volume
        for volume in map(pod_spec.plain, [*runtime.volumes, *model.volumes])
        if any(kind in volume for kind in INPUTS)
    ]
    known = {volume["name"] for volume in volumes}
    mounts = map(pod_spec.plain, [*runtime.volume_mounts, *model.volume_mounts])
    return volumes, [mount for mount in mounts if mount["name"] in known]


def _pod(
    svc: LLMService, model: Model, desired: ModelCache, platform: Platform, claim: str, directory: str
) -> dict[str, Any]:
    runtime, sole = svc.spec.runtime, desired.size is not None
    order = {
        "source": model.source,
        "revision": model.revision,
        "root": volume_names.CLAIM_DIRECTORY,
        "directory": directory,
        "sole": sole,
        "port": ports.FILL,
    }
    volumes, mounts = _inputs(svc, model)
    own = {
        "DAYBREAK_FILL": json.dumps(order),
        "HOME": "/tmp",  # noqa: S108 - where the hub's library keeps its own notes
        **pod_spec.NO_DEVICES,
    }
    container = {
        "name": FILL_CONTAINER,
        "image": platform.head_image_of(svc.workload),
        "imagePullPolicy": runtime.image_pull_policy,
        "command": ["python3", "-c", program("fill")],
        "env": pod_spec.environment(svc.workload, own, environment(model)),
        "ports": [{"name": "progress", "containerPort": ports.FILL}],
        "resources": _RESOURCES,
        "securityContext": pod_spec.container_security(),
        "volumeMounts": [{"name": _VOLUME, "mountPath": volume_names.CLAIM_DIRECTORY}, *mounts],
    }
    spec: dict[str, Any] = {
        "restartPolicy": "OnFailure",
        "serviceAccountName": pod_spec.service_account(svc.workload),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_spec.pod_security(platform),
        "containers": [container],
        "volumes": [{"name": _VOLUME, "persistentVolumeClaim": {"claimName": claim}}, *volumes],
    }
    if runtime.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret.name} for secret in runtime.image_pull_secrets]
    return spec | _place(svc, model, desired)


def _place(svc: LLMService, model: Model, desired: ModelCache) -> dict[str, Any]:
    """Return the scheduling constraints of the Job.

    A Job needs no accelerator, but its volume may be bound to a zone or a node.
    """
    tied = desired.size is not None and _access_mode(desired) is AccessMode.READ_WRITE_ONCE
    selector, tolerations = desired.node_selector, desired.tolerations
    if tied and selector is None:
        selector = model.accelerator.node_selector
    if tied and tolerations is None:
        tolerations = model.accelerator.tolerations
    found: dict[str, Any] = {}
    if selector:
        found["nodeSelector"] = dict(selector)
    if tolerations:
        found["tolerations"] = [each.model_dump(by_alias=True, exclude_none=True) for each in tolerations]
    if tied:
        # The volume may already be on a node, with the previous weights.
        beside = {**names.owner_labels(svc.name), names.MODEL_LABEL: names.worker_group(model.name)}
        term = {"labelSelector": {"matchLabels": beside}, "topologyKey": "kubernetes.io/hostname"}
        preferred = [{"weight": 100, "podAffinityTerm": term}]
        found["affinity"] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return found
