"""The RayJob: a Ray cluster of its own, and the batch that runs on its head."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from daybreak import versions
from daybreak.api.common import names
from daybreak.api.llmbatch.definition import QUEUE_LABEL, LLMBatch
from daybreak.api.ray.model import Model
from daybreak.kinds.llmbatch.objects.metadata import metadata
from daybreak.kinds.llmbatch.objects.order import KEY_VARIABLE, VARIABLE, claim_of, order
from daybreak.platform import Platform
from daybreak.ray import ports
from daybreak.ray.pods.head import autoscaler_options, head_group
from daybreak.ray.pods.pod_spec import Place
from daybreak.ray.pods.workers import worker_group
from daybreak.ray.quantities import whole_seconds

ENTRYPOINT = "python -m daybreak_runtime.batch"
_MAY_CHANGE = {"suspend", "active_deadline", "ttl_after_finished", "yields", "min_run"}
_PLENTY = "1000"
"""Of a resource that nothing uses up."""


def job_digest(batch: LLMBatch) -> str:
    """Digest of the part of the spec that may not change once the batch has begun."""
    plain = batch.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_MAY_CHANGE)
    return _digest(plain)


def ray_job(batch: LLMBatch, platform: Platform) -> dict[str, Any]:
    """The RayJob of the batch."""
    spec, workload = batch.spec, batch.workload
    groups = [_group(batch, model, platform) for model in workload.models]
    cluster: dict[str, Any] = {
        "rayVersion": spec.runtime.stated_ray_version or versions.RAY,
        "authOptions": {"mode": "token"},
        "headGroupSpec": head_group(
            workload,
            platform,
            # The batch's own program runs there, with Ray Data's half of the engine.
            image=platform.image_of(workload),
            variables=_variables(batch),
            places=_rows(batch),
            ports={"batch": ports.BATCH},
        ),
        "workerGroupSpecs": groups,
    }
    if any(group["minReplicas"] != group["maxReplicas"] for group in groups):
        cluster["enableInTreeAutoscaling"] = True
        cluster["autoscalerOptions"] = autoscaler_options(whole_seconds(spec.runtime.idle_timeout))
    wanted: dict[str, Any] = {
        # The job is submitted by KubeRay itself: no pod that could be evicted, and a head that was lost gets
        # it anew. It is also the form that Kueue takes.
        "submissionMode": "HTTPMode",
        "entrypoint": ENTRYPOINT,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": whole_seconds(spec.ttl_after_finished),
        "backoffLimit": spec.retries,
        "rayClusterSpec": cluster,
    }
    if spec.active_deadline is not None:
        wanted["activeDeadlineSeconds"] = whole_seconds(spec.active_deadline)
    found = metadata(batch, names.ray_job(batch.name), "batch")
    if batch.queue:
        found["labels"][QUEUE_LABEL] = batch.queue
    found["annotations"] = {
        names.BATCH_ANNOTATION: job_digest(batch),
        names.RAY_CLUSTER_ANNOTATION: _digest(cluster),
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": found, "spec": wanted}


def _group(batch: LLMBatch, model: Model, platform: Platform) -> dict[str, Any]:
    """The model's workers: as for a service, with room for what prepares rows, and without their own port."""
    workload = batch.workload
    # Nobody waits for answers of a pod that goes: its rows are asked again elsewhere.
    serve = model.serve.model_copy(update={"graceful_shutdown_timeout": "0s"})
    runtime = workload.runtime.model_copy(update={"direct_ingress": False})
    alone = type(workload)(workload.name, workload.models, runtime, workload.replicas)
    group = worker_group(alone, model.model_copy(update={"serve": serve}), platform)
    group["resources"][names.prepare_resource(model.name)] = _PLENTY
    if batch.queue:
        # Kueue counts what it admits, so nothing may come later.
        group["replicas"] = group["minReplicas"] = group["maxReplicas"]
    return group


def _variables(batch: LLMBatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": VARIABLE, "value": order(batch)}]
    reference = batch.spec.service_ref.api_key if batch.spec.service_ref is not None else None
    if reference is not None:
        key = reference.secret_key_ref.model_dump(by_alias=True, exclude_none=True)
        found.append({"name": KEY_VARIABLE, "valueFrom": {"secretKeyRef": key}})
    return found


def _rows(batch: LLMBatch) -> list[Place]:
    """Claims with rows, each once."""
    found: dict[str, Place] = {}
    for uri in (batch.spec.input.uri, batch.spec.output.uri):
        of_claim = claim_of(uri)
        if of_claim is not None:
            claim = of_claim[0]
            name, path = names.rows_volume(claim), names.rows_directory(claim)
            found[claim] = Place(
                {"name": name, "persistentVolumeClaim": {"claimName": claim}},
                {"name": name, "mountPath": path},
            )
    return list(found.values())


def _digest(value: Mapping[str, Any]) -> str:
    written = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(written.encode()).hexdigest()[:16]
