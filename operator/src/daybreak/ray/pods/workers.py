"""The worker groups: one for each model, and in it one pod for each replica or pipeline stage.

Ray's autoscaler adds and removes the pods as Serve asks for replicas.
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
"""Ray's own time for a node to drain."""
PROXY_DRAIN_SECONDS = 5
"""How long the Serve proxy of a pod that is told to stop goes on though nobody is there; who is there ends
first in any case. Ray's own 30 seconds are for load balancers, which hear late of it; endpoints of a Service
change within seconds. Where a whole Ray cluster goes, the head ends after 30 seconds, and a worker that is
still there then waits a minute for it to come back, with its accelerators."""
EXIT_SECONDS = 30
"""What Ray's processes may take to end after the drain, before the kubelet kills them."""


def bounds(workload: RayWorkload, model: Model) -> tuple[int, int]:
    """Fewest and most pods of the model's worker group."""
    allowed = replica_range(workload, model)
    each = pods_per_replica(model)
    return allowed.min * each, allowed.max * each


def worker_group(workload: RayWorkload, model: Model, platform: Platform) -> dict[str, Any]:
    """The model's entry in the RayCluster's `workerGroupSpecs`."""
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
    """Whether Ray runs in the pod, which is what KubeRay asks of Ray pods that serve nothing.

    Of a RayService's workers it asks for a Serve proxy as well, unless they have a probe of their own. There
    is one only where the actor of a replica is, so the other pods of a pipeline would never be ready.
    """
    return {
        "httpGet": {"path": "/api/healthz", "port": ports.AGENT},
        "initialDelaySeconds": 10,
        "timeoutSeconds": 2,
        "periodSeconds": 5,
        "failureThreshold": 10,
    }


def _ray_resources(model: Model) -> dict[str, str]:
    """What one pod offers Ray; from this the autoscaler also knows a group that has no pod yet.

    Cores are what Ray books, whatever the pod requests of Kubernetes.
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
    """Variables of this model alone. The token of a model with a cache is for the Job that fills it."""
    return [] if model.cache is not None else weights.environment(model)


def _environment(workload: RayWorkload, model: Model, drain_seconds: int) -> dict[str, str]:
    environment = {
        # As long as a replica may take to finish its requests, and no longer: Serve stops the replicas
        # of a draining node this long before its deadline, at once therefore, and the pod leaves when
        # the last request is done.
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
        # Else Ray sets it to the cores that it books for the replica, which is one.
        environment["OMP_NUM_THREADS"] = str(max(1, math.floor(parse_quantity(worker_cpu(model)))))
    return environment
