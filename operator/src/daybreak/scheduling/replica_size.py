"""The arithmetic of one replica: how many pods it takes and what each of them needs.

The one source for the objects that are built and for the check whether a node has room for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from daybreak.api.ray.model import AcceleratorKind, Model, Placement
from daybreak.api.ray.workload import RayWorkload
from daybreak.api.schema.kubernetes_types import Toleration
from daybreak.api.schema.scalars import parse_quantity

CPUS_PER_BUNDLE = 1
"""Cores that Ray books for one accelerator's engine process."""
CPUS_OF_REPLICA_ACTOR = 1
"""Cores that Ray books for Serve's replica actor; Ray adds them to the replica's first bundle."""

DEVICE_CLAIMS = "resource.k8s.io"
"""Stands for accelerators that come by claims (DRA)."""
CORES = "cpu"
"""Stands for the cores and the memory of models without accelerators."""

_GIB = 2**30


@dataclass(frozen=True)
class PodNeed:
    """What one worker pod asks of a node, in Kubernetes' own terms."""

    requests: Mapping[str, str]
    """Quantity of each resource: `cpu`, `memory` and the accelerator's resource where it has one.
    Accelerators that come by a claim (DRA) are no resource of a node."""
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]


def placement(model: Model) -> Placement:
    """How the accelerators of one replica are placed.

    Unless it is said: on one node, as soon as a replica has several in one pod; close together when a
    pipeline spans pods.
    """
    if model.placement is not None:
        return model.placement
    if model.parallelism.pipeline == 1 and model.parallelism.tensor > 1:
        return Placement.STRICT_PACK
    return Placement.PACK


def bundle_count(model: Model) -> int:
    """Bundles of one replica: one for each of its engine's workers."""
    return model.parallelism.tensor * model.parallelism.pipeline


def bundle(model: Model) -> dict[str, float]:
    """Ray resources of one bundle."""
    if model.accelerator.kind is AcceleratorKind.CPU:
        return {"CPU": CPUS_PER_BUNDLE}
    return {"CPU": CPUS_PER_BUNDLE, "GPU": 1}


def pods_per_replica(model: Model) -> int:
    """Worker pods of one replica: one, or one for each pipeline stage when nodes may differ."""
    return 1 if placement(model) is Placement.STRICT_PACK else model.parallelism.pipeline


def bundles_per_pod(model: Model) -> int:
    """Bundles that one worker pod holds: a whole replica, or one stage of its pipeline."""
    return bundle_count(model) // pods_per_replica(model)


def accelerators_per_pod(model: Model) -> int:
    """Accelerators of one worker pod; 0 on the CPU."""
    return 0 if model.accelerator.kind is AcceleratorKind.CPU else bundles_per_pod(model)


def scarce_resource(model: Model) -> str:
    """What a model's accelerators are called where models compete for them: their resource on nodes, or one
    name for all that come by claims, since nothing of a claim's template is read. Models without any compete
    for cores and memory."""
    if model.accelerator.kind is AcceleratorKind.CPU:
        return CORES
    return DEVICE_CLAIMS if model.accelerator.claim is not None else model.accelerator.resource


def accelerators_awake(workload: RayWorkload, model: Model) -> int:
    """Accelerators that a model of a workload holds at least while it is awake."""
    return pods_awake(workload, model) * accelerators_per_pod(model)


def pods_awake(workload: RayWorkload, model: Model) -> int:
    """Pods that a model of a workload has at least while it is awake."""
    fewest = model.replicas.min if workload.replicas is None else workload.replicas
    return max(fewest, 1) * pods_per_replica(model)


def ray_cpus_per_pod(model: Model) -> int:
    """Cores that Ray books in one worker pod: its bundles, and the replica actor (any pod may get it)."""
    return bundles_per_pod(model) * CPUS_PER_BUNDLE + CPUS_OF_REPLICA_ACTOR


def worker_cpu(model: Model) -> str:
    """Cores of one worker pod, as a quantity."""
    return model.resources.cpu or str(ray_cpus_per_pod(model))


def worker_memory(model: Model) -> str:
    """Memory of one worker pod, /dev/shm included, as a quantity."""
    if model.resources.memory is not None:
        return model.resources.memory
    if model.accelerator.kind is AcceleratorKind.CPU:
        return "5Gi"
    return f"{8 + 16 * accelerators_per_pod(model)}Gi"


def worker_shared_memory(model: Model) -> str:
    """Size of /dev/shm of one worker pod, as a quantity."""
    if model.resources.shared_memory is not None:
        return model.resources.shared_memory
    return f"{max(1, 2 * accelerators_per_pod(model))}Gi"


def object_store_bytes(shared_memory: str) -> int:
    """Bytes of Ray's object store: half of /dev/shm, where it lives; the engine and NCCL share the rest.

    Little goes through it, since requests and answers are small. At most 1 GiB, and not below Ray's own
    minimum of 75 MiB.
    """
    half = int(parse_quantity(shared_memory) / 2)
    return max(min(half, _GIB), 75 * 2**20)


def worker_need(model: Model) -> PodNeed:
    """What one worker pod asks of a node."""
    requests = {"cpu": worker_cpu(model), "memory": worker_memory(model)}
    accelerators = accelerators_per_pod(model)
    if accelerators and model.accelerator.claim is None:
        requests[model.accelerator.resource] = str(accelerators)
    return PodNeed(
        requests=requests,
        node_selector=model.accelerator.node_selector,
        tolerations=tuple(model.accelerator.tolerations),
    )


def need_in_numbers(need: PodNeed) -> dict[str, Decimal]:
    """The requests in base units: cores, bytes, devices."""
    return {resource: parse_quantity(quantity) for resource, quantity in need.requests.items()}
