"""What a Ray cluster is made for, whatever the kind of the object that asks for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from daybreak.api.ray.model import AcceleratorKind, Model
from daybreak.api.ray.runtime import Runtime


@dataclass(frozen=True)
class RayWorkload:
    """Models on Ray, and the pods that run them."""

    name: str
    """Name of the object that asks for it, which the names of its own objects begin with."""
    models: Sequence[Model]
    """The models, each with a worker group of its own."""
    runtime: Runtime
    """The Ray pods."""
    replicas: int | None = None
    """Replicas of every model, fixed; None: each model's own."""
    asleep: frozenset[str] = frozenset()
    """Models whose worker pods are given back."""
    running: Mapping[str, int] = field(default_factory=dict)
    """Replicas with which models begin at least, within their range, by the model's name."""

    @property
    def on_accelerators(self) -> bool:
        """Whether the models compute on accelerators; all of a workload share one image."""
        return any(model.accelerator.kind is not AcceleratorKind.CPU for model in self.models)
