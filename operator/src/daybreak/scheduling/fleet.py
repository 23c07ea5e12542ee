"""Nodes of the cluster, and the resources that their pods use."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

from daybreak.scheduling.claim import Amounts
from daybreak.scheduling.nodes import NodeCapacity
from daybreak.scheduling.pod_priority import PriorityClasses
from daybreak.scheduling.room import Booked


@dataclass(frozen=True)
class Fleet:
    """The nodes and their pods."""

    nodes: Collection[NodeCapacity] = ()
    """The nodes. Empty if unknown."""
    classes: PriorityClasses = field(default_factory=dict)
    """PriorityClasses by name. Empty if unknown, or if they make no difference."""
    taken: Booked | None = None
    """Resources that all pods use on each node, or None if unknown or not known yet."""
    counted: frozenset[str] | None = frozenset()
    """Nodes for which `taken` includes the pods of others, or None while these are being counted."""

    @cached_property
    def free(self) -> Mapping[str, Amounts] | None:
        """Free amounts on each node, or None if unknown or not known yet."""
        if self.taken is None:
            return None
        return {
            node.name: {
                resource: amount - self.taken.get(node.name, {}).get(resource, Decimal(0))
                for resource, amount in node.offers.items()
            }
            for node in self.nodes
        }

    @cached_property
    def sure(self) -> Mapping[str, Amounts]:
        """Free amounts on the nodes whose pods are all counted."""
        free, counted = self.free or {}, self.counted or ()
        return {node: free[node] for node in counted if node in free}
