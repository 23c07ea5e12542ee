"""Job of a benchmark: one pod like the model's worker pods, in which engines start one after another."""

from typing import Any

from daybreak.api.common import names, volume_names
from daybreak.api.common.canonical import digest
from daybreak.api.common.owned import owned_metadata
from daybreak.api.llmbenchmark.definition import KIND, LLMBenchmark
from daybreak.api.pods.pod_template import AUTOSCALER_CONTAINER
from daybreak.api.ray.model import Model
from daybreak.api.ray.runtime import Runtime
from daybreak.api.ray.workload import RayWorkload
from daybreak.kinds.llmbenchmark.objects.order import KEY_VARIABLE, VARIABLE, order
from daybreak.kinds.llmbenchmark.objects.target import Target, measured
from daybreak.platform import Platform
from daybreak.ray import ports
from daybreak.ray.inputs.job_inputs import claim_places, config_map_file, secret_variable
from daybreak.ray.inputs.place import Place
from daybreak.ray.pods import pod_spec
from daybreak.ray.pods.workers import worker_group
from daybreak.ray.quantities import whole_seconds

COMPONENT = "benchmark"
"""Component label of a benchmark's objects and pods."""
COMMAND = ["python", "-m", "daybreak_runtime.benchmark"]
RETRIES = 2
"""Maximum number of times that a lost pod is recreated. The benchmark then restarts."""
_GRACE_SECONDS = 60
_MAY_CHANGE = {"suspend", "schedule", "apply_mode", "ttl_after_finished"}


def job_digest(benchmark: LLMBenchmark) -> str:
    """Return a digest of the part of the spec that must not change after the benchmark has begun."""
    plain = benchmark.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_MAY_CHANGE)
    return digest(plain)


def job(benchmark: LLMBenchmark, target: Target, platform: Platform) -> dict[str, Any]:
    """Return the Job of the benchmark."""
    found = owned_metadata(KIND, benchmark, names.benchmark_job(benchmark.name), COMPONENT)
    found["annotations"] = {
        names.BENCHMARK_ANNOTATION: job_digest(benchmark),
        names.MEASURED_ANNOTATION: measured(target),
    }
    spec = {
        "backoffLimit": RETRIES,
        "ttlSecondsAfterFinished": whole_seconds(benchmark.spec.ttl_after_finished),
        "template": _template(benchmark, target, platform),
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": found, "spec": spec}


def _template(benchmark: LLMBenchmark, target: Target, platform: Platform) -> dict[str, Any]:
    runtime = target.runtime.model_copy(update={"direct_ingress": False})
    name = benchmark.owner
    if target.model is None:
        template = _asking(RayWorkload(name, (), runtime), runtime, platform)
    else:
        template = _serving(RayWorkload(name, (target.model,), runtime), target.model, platform)
    template["metadata"]["labels"] |= names.labels(name, COMPONENT)
    spec = template["spec"]
    spec["restartPolicy"] = "Never"
    spec["terminationGracePeriodSeconds"] = _GRACE_SECONDS
    container = spec["containers"][0]
    container["command"] = COMMAND
    container["ports"] = [{"name": COMPONENT, "containerPort": ports.BATCH}]
    own = _variables(benchmark, target)
    kept = {each["name"] for each in own}
    container["env"] = [each for each in container["env"] if each["name"] not in kept] + own
    for place in _places(benchmark):
        spec["volumes"].append(place.volume)
        container["volumeMounts"].append(place.mount)
    return template


def _places(benchmark: LLMBenchmark) -> list[Place]:
    """Return the volumes for the report and for recorded lengths."""
    output, recorded = benchmark.spec.output, benchmark.spec.load.trace_from
    uris = (output.uri if output is not None else None, recorded.uri if recorded is not None else None)
    found = claim_places(uri for uri in uris if uri is not None)
    if recorded is not None and recorded.config_map_key_ref is not None:
        source = recorded.config_map_key_ref
        place = (volume_names.LENGTHS_VOLUME, volume_names.LENGTHS_DIRECTORY)
        found.append(config_map_file(*place, source.name, source.key))
    return found


def _serving(workload: RayWorkload, model: Model, platform: Platform) -> dict[str, Any]:
    """Return the pod template of a replica."""
    found: dict[str, Any] = worker_group(workload, model, platform)["template"]
    return found


def _asking(workload: RayWorkload, runtime: Runtime, platform: Platform) -> dict[str, Any]:
    """Return the template of a pod that sends requests to a service and runs no model."""
    head = runtime.head
    return pod_spec.template(
        workload,
        platform,
        component="worker",
        image=platform.image_of(workload),
        labels={},
        ports={},
        env=pod_spec.environment(workload, pod_spec.NO_DEVICES),
        requests={"cpu": head.resources.cpu, "memory": head.resources.memory},
        places=[],
        node_selector=head.node_selector,
        tolerations=head.tolerations,
        grace_seconds=_GRACE_SECONDS,
        own_volumes=head.volumes,
        own_mounts=head.volume_mounts,
        overlay=None if head.pod_template is None else head.pod_template.without(AUTOSCALER_CONTAINER),
    )


def _variables(benchmark: LLMBenchmark, target: Target) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": VARIABLE, "value": order(benchmark, target)}]
    reference = benchmark.spec.service_ref
    if target.model is None and reference is not None and reference.api_key is not None:
        found.append(secret_variable(KEY_VARIABLE, reference.api_key))
    return found
