"""Workload of a Ray cluster, for every kind of object that requests one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from daybreak.api.ray.model import AcceleratorKind, Model
from daybreak.api.ray.runtime import Runtime


@dataclass(frozen=True)
class RayWorkload:
    """Models on Ray, and the pods that run them."""

    name: str
    """Name of the object that requests the workload; the names of the workload's objects begin with it."""
    models: Sequence[Model]
    """Models of the workload, each with its own worker group."""
    runtime: Runtime
    """Ray pods of the workload."""
    replicas: int | None = None
    """Fixed number of replicas of every model, or None if each model's own number applies."""
    asleep: frozenset[str] = frozenset()
    """Names of models with released worker pods."""
    running: Mapping[str, int] = field(default_factory=dict)
    """Minimum numbers of replicas at the start, within each model's range, by model name."""

    @property
    def on_accelerators(self) -> bool:
        """Return True if the models compute on accelerators; all models of a workload share one image."""
        return any(model.accelerator.kind is not AcceleratorKind.CPU for model in self.models)
