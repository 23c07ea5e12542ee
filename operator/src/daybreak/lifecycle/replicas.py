"""How many replicas a model may have: the model's own range, or the whole service's fixed number."""

from dataclasses import dataclass, replace

from daybreak.api.llmservice import LLMService
from daybreak.api.spec import Model


@dataclass(frozen=True)
class ReplicaRange:
    """The replicas between which Ray Serve scales a model, and how many there are at the start."""

    min: int
    max: int
    initial: int


def replica_range(svc: LLMService, model: Model) -> ReplicaRange:
    """Range of one model of the service.

    `spec.replicas` (what `kubectl scale` writes) fixes every model at that number. Fixed at 0 still leaves
    room for one replica: Ray Serve knows no upper bound below 1, and a request must be able to wake the
    model instead of waiting for nothing.
    """
    if svc.spec.replicas is not None:
        fixed = svc.spec.replicas
        return ReplicaRange(min=fixed, max=max(fixed, 1), initial=fixed)
    own = model.replicas
    upper = max(own.min, 1) if own.max is None else own.max
    initial = max(own.min, 1) if own.initial is None else own.initial
    return ReplicaRange(min=own.min, max=upper, initial=min(initial, upper))


def without_replicas(svc: LLMService) -> LLMService:
    """The service as its objects are built while its workers are given back.

    Only numbers differ, which Serve changes in place: nothing is restarted when it wakes.
    """
    return replace(svc, spec=svc.spec.model_copy(update={"replicas": 0}))
