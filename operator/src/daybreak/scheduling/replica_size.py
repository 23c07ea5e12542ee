"""Size of one replica: the number of its pods and the requests of each.

The only source for the builders of objects and for the fit check.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from daybreak.api.ray.model import AcceleratorKind, Model, Placement
from daybreak.api.ray.workload import RayWorkload
from daybreak.api.schema.kubernetes_types import Toleration
from daybreak.api.schema.scalars import parse_quantity

CPUS_PER_BUNDLE = 1
"""CPUs that Ray reserves for one accelerator's engine process."""
CPUS_OF_REPLICA_ACTOR = 1
"""CPUs that Ray reserves for Serve's replica actor; Ray adds them to the replica's first bundle."""

DEVICE_CLAIMS = "resource.k8s.io"
"""Name for all accelerators from ResourceClaims (DRA)."""
CORES = "cpu"
"""Name for the CPUs and the memory of models without accelerators."""

_GIB = 2**30


@dataclass(frozen=True)
class PodNeed:
    """Demand of one worker pod on a node, in Kubernetes' terms."""

    requests: Mapping[str, str]
    """Quantity of each resource: `cpu`, `memory` and the accelerator's resource if it has one.

    Accelerators from a ResourceClaim (DRA) are not a resource of a node.
    """
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]


def placement(model: Model) -> Placement:
    """Return the placement of the accelerators of one replica.

    Defaults to one node if a pod of the replica has several accelerators, and to close nodes if a pipeline
    spans pods.
    """
    if model.placement is not None:
        return model.placement
    if model.parallelism.pipeline == 1 and model.parallelism.tensor > 1:
        return Placement.STRICT_PACK
    return Placement.PACK


def bundle_count(model: Model) -> int:
    """Return the number of bundles of one replica: one for each of its engine's workers."""
    return model.parallelism.tensor * model.parallelism.pipeline


def bundle(model: Model) -> dict[str, float]:
    """Return the Ray resources of one bundle."""
    if model.accelerator.kind is AcceleratorKind.CPU:
        return {"CPU": CPUS_PER_BUNDLE}
    return {"CPU": CPUS_PER_BUNDLE, "GPU": 1}


def pods_per_replica(model: Model) -> int:
    """Return the number of worker pods of one replica: one, or one per stage if nodes may differ."""
    return 1 if placement(model) is Placement.STRICT_PACK else model.parallelism.pipeline


def bundles_per_pod(model: Model) -> int:
    """Return the number of bundles of one worker pod: a whole replica, or one stage of its pipeline."""
    return bundle_count(model) // pods_per_replica(model)


def accelerators_per_pod(model: Model) -> int:
    """Return the number of accelerators of one worker pod; 0 on the CPU."""
    return 0 if model.accelerator.kind is AcceleratorKind.CPU else bundles_per_pod(model)


def scarce_resource(model: Model) -> str:
    """Return the name of the resource for which a model competes.

    Accelerators have the name of their resource on nodes. All accelerators from ResourceClaims share one
    name, because the operator does not read the claim's template. Models without accelerators compete for
    CPUs and memory.
    """
    if model.accelerator.kind is AcceleratorKind.CPU:
        return CORES
    return DEVICE_CLAIMS if model.accelerator.claim is not None else model.accelerator.resource


def accelerators_awake(workload: RayWorkload, model: Model) -> int:
    """Return the minimum number of accelerators that a model of a workload holds while it is awake."""
    return pods_awake(workload, model) * accelerators_per_pod(model)


def pods_awake(workload: RayWorkload, model: Model) -> int:
    """Return the minimum number of pods that a model of a workload has while it is awake."""
    fewest = model.replicas.min if workload.replicas is None else workload.replicas
    return max(fewest, 1) * pods_per_replica(model)


def ray_cpus_per_pod(model: Model) -> int:
    """Return the CPUs that Ray reserves in one worker pod: its bundles, and the replica actor.

    Any pod may get the replica actor.
    """
    return bundles_per_pod(model) * CPUS_PER_BUNDLE + CPUS_OF_REPLICA_ACTOR


def worker_cpu(model: Model) -> str:
    """Return the CPUs of one worker pod, as a quantity."""
    return model.resources.cpu or str(ray_cpus_per_pod(model))


def worker_memory(model: Model) -> str:
    """Return the memory of one worker pod, including `/dev/shm`, as a quantity."""
    if model.resources.memory is not None:
        return model.resources.memory
    if model.accelerator.kind is AcceleratorKind.CPU:
        return "5Gi"
    return f"{8 + 16 * accelerators_per_pod(model)}Gi"


def worker_shared_memory(model: Model) -> str:
    """Return the size of `/dev/shm` of one worker pod, as a quantity."""
    if model.resources.shared_memory is not None:
        return model.resources.shared_memory
    return f"{max(1, 2 * accelerators_per_pod(model))}Gi"


def object_store_bytes(shared_memory: str) -> int:
    """Return the size of Ray's object store in bytes: half of `/dev/shm`, which contains it.

    The engine and NCCL share the rest. Requests and responses are small, so little data passes through the
    store. At most 1 GiB, and at least Ray's own minimum of 75 MiB.
    """
    half = int(parse_quantity(shared_memory) / 2)
    return max(min(half, _GIB), 75 * 2**20)


def worker_need(model: Model) -> PodNeed:
    """Return the demand of one worker pod on a node."""
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
    """Return the requests in base units: CPUs, bytes, devices."""
    return {resource: parse_quantity(quantity) for resource, quantity in need.requests.items()}
