"""Range of a model's replicas: its own range, or the fixed number of the whole service."""

from dataclasses import dataclass

from daybreak.api.ray.model import Model
from daybreak.api.ray.workload import RayWorkload


@dataclass(frozen=True)
class ReplicaRange:
    """Minimum, maximum and initial number of replicas, between which Ray Serve scales a model."""

    min: int
    max: int
    initial: int


def replica_range(workload: RayWorkload, model: Model) -> ReplicaRange:
    """Return the range of one model of a workload.

    An awake model has at least one replica: only the state machine of its gate removes the last one, never
    Serve. A sleeping model has none, with an upper bound of 1, because Serve permits no lower one.
    """
    if model.name in workload.asleep:
        return ReplicaRange(min=0, max=1, initial=0)
    if workload.replicas is not None:
        fixed = max(workload.replicas, 1)
        return ReplicaRange(min=fixed, max=fixed, initial=fixed)
    own = model.replicas
    fewest = max(own.min, 1)
    most = fewest if own.max is None else own.max
    initial = fewest if own.initial is None else max(own.initial, fewest)
    initial = max(initial, workload.running.get(model.name, 0))
    return ReplicaRange(min=fewest, max=most, initial=min(initial, most))
