"""Demands that a `podTemplate` adds to Daybreak's pod, as far as the fit check can know them.

Affinity, topology spread, a custom scheduler and ResourceClaims (DRA) are ignored. They only reduce the
suitable nodes, so a fitting pod is never reported as a misfit. A RuntimeClass is ignored too, because the
operator does not read it. It may add tolerations, so taints are ignored for a pod that names one.
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
    """Additions of a template to a pod."""

    beside: Amounts = field(default_factory=dict)
    """Requests of containers alongside Daybreak's, and additional requests of Daybreak's own container."""
    before: Amounts = field(default_factory=dict)
    """Maximum amount of each resource that the pod requests while it starts."""
    selector: Mapping[str, str] = field(default_factory=dict)
    """Additional labels that a node must have."""
    tolerations: tuple[Toleration, ...] = ()
    """Additional tolerations of the pod."""

    def requests(self, own: Amounts) -> dict[str, Decimal]:
        """Return the requests of the whole pod, from its requests without the template."""
        total = _sum(own, self.beside)
        for name, amount in self.before.items():
            total[name] = max(total.get(name, _NOTHING), amount)
        return total


def of(template: PodTemplate | None, container: str) -> Additions:
    """Return the additions of a template to a pod whose main container has a name."""
    if template is None:
        return Additions()
    spec = template.written()
    beside: Amounts = {}
    for each in spec.get("containers", ()):
        if each["name"] == AUTOSCALER_CONTAINER:
            # Counted with the head, because only its pod has this container.
            continue
        beside = _sum(beside, _requests(each, own=each["name"] in (container, RAY_CONTAINER)))
    started: Amounts = {}
    before: dict[str, Decimal] = {}
    for each in spec.get("initContainers", ()):
        now = _sum(started, _requests(each))
        if each.get("restartPolicy") == "Always":
            # A sidecar: it continues to run alongside the other containers.
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
    """Return the requests of a container. A limit without a request counts as a request.

    For Daybreak's own container, CPUs and memory are counted elsewhere: a template can only have limits of
    them.
    """
    resources = container.get("resources", {})
    requested = {**resources.get("limits", {}), **resources.get("requests", {})}
    return {
        name: parse_quantity(str(amount))
        for name, amount in requested.items()
        if not (own and name in ("cpu", "memory"))
    }


def _sum(one: Amounts, other: Amounts) -> dict[str, Decimal]:
    return {
        name: one.get(name, _NOTHING) + other.get(name, _NOTHING) for name in dict.fromkeys([*one, *other])
    }
