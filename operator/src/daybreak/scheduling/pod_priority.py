"""Priorities of pods: whose come first, and for whose the scheduler deletes others."""

from collections.abc import Mapping
from dataclasses import dataclass

from daybreak.api.common.unstructured import text
from daybreak.api.ray.model import Model
from daybreak.api.ray.workload import RayWorkload


@dataclass(frozen=True)
class PriorityClass:
    """A PriorityClass of the cluster, read."""

    value: int
    preempts: bool = True
    """Whether the scheduler deletes pods of a lower value to make room for pods of this one."""
    default: bool = False
    """Whether it is the class of pods that name none."""


PriorityClasses = Mapping[str, PriorityClass]
"""By name."""

NO_CLASS = PriorityClass(0)
"""What Kubernetes gives to a pod that names no class, where no class is the default."""


def class_of(workload: RayWorkload, model: Model) -> str:
    """The class that a model's pods name; empty: none."""
    template = model.pod_template
    own = text(template.written().get("priorityClassName")) if template is not None else ""
    return own or workload.runtime.priority_class_name or ""


def priority(classes: PriorityClasses, name: str) -> PriorityClass:
    """What pods get that name a class, or none. Pods of a class that is not there are not made at all."""
    if name:
        return classes.get(name, NO_CLASS)
    defaults = [each for each in classes.values() if each.default]
    # Of several defaults Kubernetes takes the lowest.
    return min(defaults, key=lambda each: each.value, default=NO_CLASS)
