"""Shared parts of the operator that every kind uses."""

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
    """Parts that are common to all kinds."""

    api: Api
    """The API server."""
    cache: Cache
    """State of the cluster."""
    watches: Watches
    """Fill the cache."""
    platform: Platform
    """Settings of the installation."""
    applier: Applier
    """Writes objects."""
    nodes: NodeWatch
    """Reads the nodes."""
    turns: TurnWatch
    """Accelerator queue of all workloads."""
    booked: BookedWatch
    """Resources that pods of workloads use on nodes."""
    others: OtherPods
    """Resources that other pods use on nodes."""
    enqueue: Callable[[str, Key], None]
    """Enqueues a reconcile of an object of a kind."""
    may_act: Callable[[], bool]
    """Returns True if the lease is currently held."""

    def enqueue_of(self, resource: Resource) -> Callable[[Key], None]:
        """Return a function that enqueues objects of this kind."""
        return partial(self.enqueue, resource.kind)
