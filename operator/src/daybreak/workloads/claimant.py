"""The pods of one gate, as far as they compete for accelerators or cores."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from daybreak.api.ray.model import Model
from daybreak.api.schema.scalars import parse_quantity
from daybreak.ray.views.ray_pods import PodView
from daybreak.scheduling.replica_size import accelerators_per_pod, worker_cpu


@dataclass(frozen=True)
class Claimant:
    """The pods of one gate, as far as they compete for accelerators or cores."""

    gate: str
    model: Model
    """The model that the pods run; of several kinds of pods the one with the most accelerators."""
    pods: Sequence[PodView]
    """Its pods that have not ended."""
    begins: bool = False
    """Whether its Ray cluster comes up for the first time."""


def greediest(models: Iterable[Model]) -> Model | None:
    """Return the kind of pods with the most accelerators, or cores if none has any; None: there is none."""

    def greed(model: Model) -> tuple[int, Decimal]:
        return accelerators_per_pod(model), parse_quantity(worker_cpu(model))

    return max(models, key=greed, default=None)
