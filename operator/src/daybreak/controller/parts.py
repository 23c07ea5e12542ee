"""The parts of the operator that every kind is built with."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from daybreak.api.schema.resource import Resource
from daybreak.controller.asking.other_pods import OtherPods
from daybreak.controller.watching.booked_watch import BookedWatch
from daybreak.controller.watching.node_watch import NodeWatch
from daybreak.controller.watching.turn_watch import TurnWatch
from daybreak.kube.client import Api
from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.watches import Watches
from daybreak.kube.writing.apply import Applier
from daybreak.manifests.keys import Key
from daybreak.platform import Platform


@dataclass(frozen=True)
class Parts:
    """What is the same for every kind."""

    api: Api
    """The API server."""
    cache: Cache
    """What is known of the cluster."""
    watches: Watches
    """Fill the cache."""
    platform: Platform
    """Settings of the installation."""
    applier: Applier
    """Writes objects."""
    nodes: NodeWatch
    """Knows the nodes."""
    turns: TurnWatch
    """Knows whose turn it is where accelerators are scarce."""
    booked: BookedWatch
    """Knows what pods of workloads hold on nodes."""
    others: OtherPods
    """Asks what pods of others hold there."""
    enqueue: Callable[[str, Key], None]
    """Has an object of a kind reconciled."""
    may_act: Callable[[], bool]
    """Whether the lease is held this moment."""

    def enqueue_of(self, resource: Resource) -> Callable[[Key], None]:
        """Has an object of this kind reconciled."""
        return partial(self.enqueue, resource.kind)
