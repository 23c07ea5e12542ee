"""What a `podTemplate` asks of a node beside the pod that Daybreak makes, as far as the fit check can know.

Affinity, topology spread, a scheduler of one's own and claims (DRA) are not looked at: they only make fewer
nodes do, so leaving them out never says of a pod that fits that it does not. Neither is a RuntimeClass, which
the operator does not read. It may add tolerations, so no taint is held against a pod that names one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from daybreak.api.pods.pod_template import AUTOSCALER_CONTAINER, RAY_CONTAINER, PodTemplate
from daybreak.api.schema.kubernetes_types import Toleration
from daybreak.api.schema.scalars import parse_quantity

Amounts = Mapping[str, Decimal]

_EVERY_TAINT = Toleration(operator="Exists")
_NOTHING = Decimal(0)


@dataclass(frozen=True)
class Additions:
    """What comes to a pod."""

    beside: Amounts = field(default_factory=dict)
    """What containers ask for that run beside those that Daybreak makes, and what its own asks for in
    addition."""
    before: Amounts = field(default_factory=dict)
    """The most of each resource that the pod asks for while it is still starting."""
    selector: Mapping[str, str] = field(default_factory=dict)
    """More labels that a node must have."""
    tolerations: tuple[Toleration, ...] = ()
    """More taints that it tolerates."""

    def requests(self, own: Amounts) -> dict[str, Decimal]:
        """What the whole pod asks for, given what it does without the template."""
        total = _sum(own, self.beside)
        for name, amount in self.before.items():
            total[name] = max(total.get(name, _NOTHING), amount)
        return total


def of(template: PodTemplate | None, container: str) -> Additions:
    """What a template adds to a pod whose container has that name."""
    if template is None:
        return Additions()
    spec = template.written()
    beside: Amounts = {}
    for each in spec.get("containers", ()):
        if each["name"] == AUTOSCALER_CONTAINER:
            # Counted with the head, whose pod alone has it.
            continue
        beside = _sum(beside, _requests(each, own=each["name"] in (container, RAY_CONTAINER)))
    started: Amounts = {}
    before: dict[str, Decimal] = {}
    for each in spec.get("initContainers", ()):
        now = _sum(started, _requests(each))
        if each.get("restartPolicy") == "Always":
            # It stays, and runs beside the others.
            started = now
        for name, amount in now.items():
            before[name] = max(before.get(name, _NOTHING), amount)
    tolerations = tuple(template.spec.tolerations)
    if template.spec.runtime_class_name is not None:
        tolerations = (*tolerations, _EVERY_TAINT)
    return Additions(
        beside=_sum(beside, started),
        before=before,
        selector=template.spec.node_selector,
        tolerations=tolerations,
    )


def _requests(container: Mapping[str, Any], *, own: bool = False) -> dict[str, Decimal]:
    """What a container asks for; what it only has a limit of, it asks for as well.

    Of Daybreak's own container, cores and memory are counted already: a template has no more than a limit of
    them.
    """
    resources = container.get("resources", {})
    asked = {**resources.get("limits", {}), **resources.get("requests", {})}
    return {
        name: parse_quantity(str(amount))
        for name, amount in asked.items()
        if not (own and name in ("cpu", "memory"))
    }


def _sum(one: Amounts, other: Amounts) -> dict[str, Decimal]:
    return {
        name: one.get(name, _NOTHING) + other.get(name, _NOTHING) for name in dict.fromkeys([*one, *other])
    }
