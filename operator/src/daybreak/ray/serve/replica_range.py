"""How many replicas a model may have: the model's own range, or the whole service's fixed number."""

from dataclasses import dataclass

from daybreak.api.ray.model import Model
from daybreak.api.ray.workload import RayWorkload


@dataclass(frozen=True)
class ReplicaRange:
    """The replicas between which Ray Serve scales a model, and how many there are at the start."""

    min: int
    max: int
    initial: int


def replica_range(workload: RayWorkload, model: Model) -> ReplicaRange:
    """Range of one model of a workload.

    `spec.replicas` (what `kubectl scale` writes) fixes every model at that number. Fixed at 0 still leaves
    room for one replica: Ray Serve knows no upper bound below 1, and a request must be able to wake the
    model instead of waiting for nothing.
    """
    if workload.replicas is not None:
        fixed = workload.replicas
        return ReplicaRange(min=fixed, max=max(fixed, 1), initial=fixed)
    own = model.replicas
    upper = max(own.min, 1) if own.max is None else own.max
    initial = max(own.min, 1) if own.initial is None else own.initial
    return ReplicaRange(min=own.min, max=upper, initial=min(initial, upper))
