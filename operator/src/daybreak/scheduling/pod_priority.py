"""Priorities of pods: order in the queue, and preemption by the scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass

from daybreak.api.common.unstructured import text
from daybreak.api.ray.model import Model
from daybreak.api.ray.workload import RayWorkload


@dataclass(frozen=True)
class PriorityClass:
    """A PriorityClass of the cluster in parsed form."""

    value: int
    preempts: bool = True
    """True if the scheduler deletes pods of a lower value to free capacity for pods of this class."""
    default: bool = False
    """True if the class applies to pods that name none."""


PriorityClasses = Mapping[str, PriorityClass]
"""PriorityClasses by name."""

NO_CLASS = PriorityClass(0)
"""Priority of a pod that names no class if the cluster has no default class."""


def class_of(workload: RayWorkload, model: Model) -> str:
    """Return the name of the PriorityClass of a model's pods. Empty if they name none."""
    template = model.pod_template
    own = text(template.written().get("priorityClassName")) if template is not None else ""
    return own or workload.runtime.priority_class_name or ""


def priority(classes: PriorityClasses, name: str) -> PriorityClass:
    """Return the priority of pods that name a class, or none.

    Pods of a missing class are not created at all.
    """
    if name:
        return classes.get(name, NO_CLASS)
    defaults = [each for each in classes.values() if each.default]
    # Of several defaults, Kubernetes uses the lowest.
    return min(defaults, key=lambda each: each.value, default=NO_CLASS)
