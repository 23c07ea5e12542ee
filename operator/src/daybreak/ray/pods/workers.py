"""Worker groups: one for each model, with one pod for each replica or pipeline stage.

Ray's autoscaler adds and removes the pods as Serve requests replicas.
"""

import math
from typing import Any

from daybreak.api.common import names, volume_names
from daybreak.api.ray.model import AcceleratorKind, Model
from daybreak.api.ray.workload import RayWorkload
from daybreak.api.schema.scalars import parse_quantity
from daybreak.platform import Platform
from daybreak.ray import ports
from daybreak.ray.inputs import weights
from daybreak.ray.inputs.place import Place
from daybreak.ray.pods import pod_spec
from daybreak.ray.quantities import whole_seconds
from daybreak.ray.serve import lora_config
from daybreak.ray.serve.replica_range import replica_range
from daybreak.ray.serve.serve_config import accelerator_type
from daybreak.scheduling.replica_size import (
    accelerators_per_pod,
    bundles_per_pod,
    object_store_bytes,
    pods_per_replica,
    ray_cpus_per_pod,
    worker_cpu,
    worker_need,
    worker_shared_memory,
)

LEAST_DRAIN_SECONDS = 30
"""Minimum drain time of a node in seconds, equal to Ray's default."""
PROXY_DRAIN_SECONDS = 5
"""Minimum time in seconds that the Serve proxy of a stopping pod continues without requests; running requests
end first in any case. Ray's default of 30 s is for load balancers, which react late, but endpoints of a
Service change within seconds. When a whole Ray cluster stops, the head ends after 30 s. A remaining worker,
with its accelerators, then waits a minute for the head to return."""
EXIT_SECONDS = 30
"""Time in seconds for Ray's processes to end after the drain, before the kubelet kills them."""


def bounds(workload: RayWorkload, model: Model) -> tuple[int, int]:
    """Return the minimum and maximum number of pods in the model's worker group."""
    allowed = replica_range(workload, model)
    each = pods_per_replica(model)
    return allowed.min * each, allowed.max * each


def worker_group(workload: RayWorkload, model: Model, platform: Platform) -> dict[str, Any]:
    """Return the model's entry in the RayCluster's `workerGroupSpecs`."""
    group = names.worker_group(model.name)
    fewest, most = bounds(workload, model)
    need = worker_need(model)
    direct = workload.runtime.direct_ingress
    claim = model.accelerator.claim
    shared_memory = worker_shared_memory(model)
    drain = max(LEAST_DRAIN_SECONDS, whole_seconds(model.serve.graceful_shutdown_timeout))
    places = [
        pod_spec.memory_place(shared_memory),
        pod_spec.log_place(),
        pod_spec.cache_place(),
    ]
    own_weights = weights.weights(workload.name, model, workload.runtime.image_pull_policy)
    if own_weights.volume is not None and own_weights.mount is not None:
        places.append(Place(own_weights.volume, own_weights.mount))
    if workload.runtime.compile_cache is not None:
        directory = volume_names.compile_cache(workload.name, model.name)
        places.append(pod_spec.compiled_place(workload.runtime.compile_cache.claim_name, directory))
    places += lora_config.places(model, workload.runtime.image_pull_policy)
    secrets = _secret(model) + lora_config.environment(model)
    template = pod_spec.template(
        workload,
        platform,
        component="worker",
        image=platform.image_of(workload),
        labels={names.MODEL_LABEL: group},
        ports=ports.WORKER_PORTS if direct else ports.WORKER_PORTS_WITHOUT_DIRECT,
        env=pod_spec.environment(workload, _environment(workload, model, drain), secrets),
        requests=dict(need.requests),
        places=places,
        node_selector=dict(need.node_selector),
        tolerations=need.tolerations,
        grace_seconds=drain + EXIT_SECONDS,
        own_volumes=[*workload.runtime.volumes, *model.volumes],
        own_mounts=[*workload.runtime.volume_mounts, *model.volume_mounts],
        claim=None if claim is None else claim.template_name,
        overlay=model.pod_template,
    )
    if pods_per_replica(model) > 1:
        template["spec"]["containers"][0]["readinessProbe"] = probe()
    return {
        "groupName": group,
        "replicas": replica_range(workload, model).initial * pods_per_replica(model),
        "minReplicas": fewest,
        "maxReplicas": most,
        "numOfHosts": 1,
        "rayStartParams": {"object-store-memory": str(object_store_bytes(shared_memory))},
        "resources": _ray_resources(model),
        "template": template,
    }


def probe() -> dict[str, Any]:
    """Return a readiness probe of Ray itself, which KubeRay uses for Ray pods that do not serve.

    By default, KubeRay's probe of a RayService's workers also requires a Serve proxy, which runs only in the
    pod with the replica's actor. The other pods of a pipeline would never be ready.
    """
    return {
        "httpGet": {"path": "/api/healthz", "port": ports.AGENT},
        "initialDelaySeconds": 10,
        "timeoutSeconds": 2,
        "periodSeconds": 5,
        "failureThreshold": 10,
    }


def _ray_resources(model: Model) -> dict[str, str]:
    """Return the resources that one pod offers Ray.

    From them the autoscaler also knows a group without pods. CPUs are those that Ray allocates, regardless of
    the pod's requests in Kubernetes.
    """
    resources = {
        "CPU": str(ray_cpus_per_pod(model)),
        "GPU": str(accelerators_per_pod(model)),
        names.model_resource(model.name): str(bundles_per_pod(model)),
    }
    if (kind := accelerator_type(model)) is not None:
        resources[f"accelerator_type:{kind}"] = "1"
    return resources


def _secret(model: Model) -> list[dict[str, Any]]:
    """Return the variables for this model only.

    The token of a model with a cache is for the Job that fills the cache.
    """
    return [] if model.cache is not None else weights.environment(model)


def _environment(workload: RayWorkload, model: Model, drain_seconds: int) -> dict[str, str]:
    environment = {
        # Exactly as long as a replica may take to finish its requests. Serve stops the replicas of a draining
        # node this long before its deadline, therefore immediately, and the pod ends after the last request.
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(drain_seconds),
        "RAY_SERVE_PROXY_MIN_DRAINING_PERIOD_S": str(PROXY_DRAIN_SECONDS),
        "XDG_CACHE_HOME": pod_spec.CACHE_DIRECTORY,
    }
    if workload.runtime.direct_ingress:
        environment["DAYBREAK_HTTP_PORT"] = str(ports.DIRECT)
    if model.accelerator.kind is AcceleratorKind.GPU or workload.runtime.compile_cache is not None:
        environment |= pod_spec.COMPILERS
    if model.accelerator.kind is AcceleratorKind.CPU:
        if workload.on_accelerators:
            environment |= pod_spec.NO_DEVICES
        # Otherwise Ray sets it to the number of CPUs that it allocates for the replica, which is one.
        environment["OMP_NUM_THREADS"] = str(max(1, math.floor(parse_quantity(worker_cpu(model)))))
    return environment
