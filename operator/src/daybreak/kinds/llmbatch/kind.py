"""The kind LLMBatch, as the operator runs it."""

from collections.abc import Callable

from daybreak.api.llmbatch.definition import LLM_BATCHES
from daybreak.controller.jobs.reconciler import Reconciler
from daybreak.controller.jobs.reports import JobProber, http_reporter
from daybreak.controller.node_watch import NodeWatch
from daybreak.controller.owner_kind import OwnerKind
from daybreak.controller.turn_watch import TurnWatch
from daybreak.kinds.llmbatch.job_kind import BatchKind
from daybreak.kinds.llmbatch.observe.observer import Observer
from daybreak.kinds.llmbatch.observe.progress_reports import PATH, read
from daybreak.kube.apply import Applier
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.resources import OF_BATCHES, PODS
from daybreak.kube.watches import Watches
from daybreak.platform import Platform


def llm_batches(
    api: Api,
    cache: Cache,
    watches: Watches,
    platform: Platform,
    applier: Applier,
    nodes: NodeWatch,
    turns: TurnWatch,
    enqueue: Callable[[Key], None],
    may_act: Callable[[], bool],
) -> OwnerKind:
    """Who looks after every LLMBatch.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        watches: Fill the cache.
        platform: Settings of the installation.
        applier: Writes objects.
        nodes: Knows the nodes.
        turns: Knows whose turn it is where accelerators are scarce.
        enqueue: Has an LLMBatch reconciled.
        may_act: Whether the lease is held this moment.
    """
    prober = JobProber(http_reporter(PATH, read), enqueue)
    reconciler = Reconciler(
        BatchKind(platform), Observer(cache, watches, nodes, turns), api, cache, prober, applier, may_act
    )
    return OwnerKind(LLM_BATCHES, cache, (*OF_BATCHES, PODS), reconciler, [prober])
