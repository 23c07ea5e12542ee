"""Nodes of the cluster, and what their pods use."""

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
    """The nodes, and what is on them."""

    nodes: Collection[NodeCapacity] = ()
    """Empty: they are not known."""
    classes: PriorityClasses = field(default_factory=dict)
    """Empty: they make no difference, or they are not known."""
    taken: Booked | None = None
    """What all pods hold of each node; None: that is not known, or not yet."""
    counted: frozenset[str] | None = frozenset()
    """Nodes of which pods of others are in that too; None: they are being asked for."""

    @cached_property
    def free(self) -> Mapping[str, Amounts] | None:
        """What is free on each node; None: that is not known, or not yet."""
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
        """The same of those nodes alone of which all pods are known."""
        free, counted = self.free or {}, self.counted or ()
        return {node: free[node] for node in counted if node in free}
