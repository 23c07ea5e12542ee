"""The pods of one gate as competitors for accelerators or CPUs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from daybreak.api.ray.model import Model
from daybreak.api.schema.scalars import parse_quantity
from daybreak.ray.views.ray_pods import PodView
from daybreak.scheduling.replica_size import accelerators_per_pod, worker_cpu


@dataclass(frozen=True)
class Claimant:
    """The pods of one gate as competitors for accelerators or CPUs."""

    gate: str
    model: Model
    """Model that the pods run. If there are several kinds of pods, the one with the most accelerators."""
    pods: Sequence[PodView]
    """The gate's pods that have not ended."""
    begins: bool = False
    """True if the Ray cluster starts for the first time."""


def greediest(models: Iterable[Model]) -> Model | None:
    """Return the kind of pods with the most accelerators, or CPUs if none has any, or None without pods."""

    def greed(model: Model) -> tuple[int, Decimal]:
        return accelerators_per_pod(model), parse_quantity(worker_cpu(model))

    return max(models, key=greed, default=None)
