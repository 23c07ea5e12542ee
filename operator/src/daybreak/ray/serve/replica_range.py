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

    A model that is awake has a replica at least: only the state machine of its gate takes the last one, never
    Serve. One that sleeps has none, and Serve has an upper bound of 1, since it knows none below.
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
