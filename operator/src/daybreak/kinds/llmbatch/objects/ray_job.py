"""RayJob of a batch: a dedicated Ray cluster, and the batch program that runs on its head."""

from typing import Any

from daybreak import versions
from daybreak.api.common import names
from daybreak.api.common.canonical import digest
from daybreak.api.common.owned import owned_metadata
from daybreak.api.llmbatch.definition import KIND, QUEUE_LABEL, LLMBatch
from daybreak.api.ray.model import Model
from daybreak.kinds.llmbatch.objects.order import KEY_VARIABLE, VARIABLE, order
from daybreak.platform import Platform
from daybreak.ray import ports
from daybreak.ray.inputs.job_inputs import claim_places, secret_variable
from daybreak.ray.pods.head import autoscaler_options, head_group
from daybreak.ray.pods.workers import worker_group
from daybreak.ray.quantities import whole_seconds

COMPONENT = "batch"
"""Component label of a batch's objects."""
ENTRYPOINT = "python -m daybreak_runtime.batch"
_MAY_CHANGE = {"suspend", "active_deadline", "ttl_after_finished", "preemptible", "min_run_duration"}
_PLENTY = "1000"
"""Quantity of a Ray resource that must never run out."""


def job_digest(batch: LLMBatch) -> str:
    """Return a digest of the part of the spec that must not change after the batch has begun."""
    plain = batch.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_MAY_CHANGE)
    return digest(plain)


def ray_job(batch: LLMBatch, platform: Platform) -> dict[str, Any]:
    """Return the RayJob of the batch."""
    spec, workload = batch.spec, batch.workload
    groups = [_group(batch, model, platform) for model in workload.models]
    cluster: dict[str, Any] = {
        "rayVersion": spec.runtime.stated_ray_version or versions.RAY,
        "authOptions": {"mode": "token"},
        "headGroupSpec": head_group(
            workload,
            platform,
            # The batch program runs on the head, together with Ray Data's half of the engine.
            image=platform.image_of(workload),
            variables=_variables(batch),
            places=claim_places((spec.input.uri, spec.output.uri)),
            ports={"batch": ports.BATCH},
        ),
        "workerGroupSpecs": groups,
    }
    if any(group["minReplicas"] != group["maxReplicas"] for group in groups):
        cluster["enableInTreeAutoscaling"] = True
        cluster["autoscalerOptions"] = autoscaler_options(
            spec.runtime.head, whole_seconds(spec.runtime.idle_timeout)
        )
    desired: dict[str, Any] = {
        # KubeRay submits the job itself: no submitter pod can be evicted, and a recreated head gets the job
        # again. Kueue also accepts this mode.
        "submissionMode": "HTTPMode",
        "entrypoint": ENTRYPOINT,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": whole_seconds(spec.ttl_after_finished),
        "backoffLimit": spec.backoff_limit,
        "rayClusterSpec": cluster,
    }
    if spec.active_deadline is not None:
        desired["activeDeadlineSeconds"] = whole_seconds(spec.active_deadline)
    found = owned_metadata(KIND, batch, names.ray_job(batch.name), COMPONENT)
    if batch.queue:
        found["labels"][QUEUE_LABEL] = batch.queue
    found["annotations"] = {
        names.BATCH_ANNOTATION: job_digest(batch),
        names.RAY_CLUSTER_ANNOTATION: digest(cluster),
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": found, "spec": desired}


def _group(batch: LLMBatch, model: Model, platform: Platform) -> dict[str, Any]:
    """Return the worker group of the model: as for a service, with row preparers and no direct port."""
    workload = batch.workload
    # No client waits for answers of a stopping pod: its rows are sent again to another one.
    serve = model.serve.model_copy(update={"graceful_shutdown_timeout": "0s"})
    runtime = workload.runtime.model_copy(update={"direct_ingress": False})
    alone = type(workload)(workload.name, workload.models, runtime, workload.replicas)
    group = worker_group(alone, model.model_copy(update={"serve": serve}), platform)
    group["resources"][names.prepare_resource(model.name)] = _PLENTY
    if batch.queue:
        # Kueue counts the pods that it admits, so no pods may be added later.
        group["replicas"] = group["minReplicas"] = group["maxReplicas"]
    return group


def _variables(batch: LLMBatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": VARIABLE, "value": order(batch)}]
    reference = batch.spec.service_ref
    if reference is not None and reference.api_key is not None:
        found.append(secret_variable(KEY_VARIABLE, reference.api_key))
    return found
