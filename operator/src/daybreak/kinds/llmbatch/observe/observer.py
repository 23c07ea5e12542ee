"""Observer of batches: gathers all inputs of one reconcile, once."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from daybreak.api.common import names
from daybreak.api.llmbatch import validation
from daybreak.api.llmbatch.definition import LLM_BATCHES, LLMBatch
from daybreak.api.llmbatch.spec import ServiceKind
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.api.schema.custom_object import read_object
from daybreak.api.schema.resource import Resource
from daybreak.controller.jobs.observer import JobObserver
from daybreak.controller.jobs.references import References
from daybreak.controller.watching.node_watch import NodeWatch
from daybreak.controller.watching.turn_watch import TurnWatch
from daybreak.jobs.observed import Referred
from daybreak.kinds.llmbatch.observe.claims import claims
from daybreak.kinds.llmbatch.observe.observed import Observed
from daybreak.kube.watching.cache import Cache
from daybreak.kube.watching.watches import Watches
from daybreak.manifests.keys import Key, OwnerKey
from daybreak.manifests.resources import RAY_CLUSTERS, RAY_JOBS
from daybreak.scheduling.claim import NO_MATTER

SERVICES: Mapping[ServiceKind, Resource] = {
    ServiceKind.LLM_SERVICE: LLM_SERVICES,
    ServiceKind.LLM_ROUTE: LLM_ROUTES,
    ServiceKind.MODEL_SERVER: MODEL_SERVERS,
}
"""Resources of the kinds that `serviceRef` may refer to."""


class Observer:
    """Observer of batches that reads only the cache, never the API server.

    Args:
        cache: Cached objects of the cluster.
        watches: Watches that fill the cache.
        nodes: Watch of the nodes.
        turns: Accelerator queue of all workloads.
        references: Registry of the services to which batches refer.
    """

    def __init__(
        self, cache: Cache, watches: Watches, nodes: NodeWatch, turns: TurnWatch, references: References
    ) -> None:
        self._watches = watches
        self._nodes = nodes
        self._turns = turns
        self._references = references
        self._cache = cache
        self._jobs = JobObserver(cache, LLM_BATCHES, RAY_JOBS, names.ray_job, self._look)

    def observe(self, key: Key) -> Observed | None:
        """Return the observation of a batch, or None if it does not exist."""
        observed = self._jobs.observe(key)
        if observed is None:
            self._turns.forget(OwnerKey(LLM_BATCHES.kind, *key))
            self._references.forget(key)
            return None
        return replace(self._with_clusters(key, observed), service=self._service(key, observed))

    def again(self, key: Key, observed: Observed) -> Observed:
        """Return the observation with the current objects and its previous spec."""
        return self._with_clusters(key, self._jobs.again(key, observed))

    def received(self, key: Key, observed: Observed) -> Observed:
        """Return the observation with the batch's turn, which depends on the reported progress."""
        found = self._turns.turns(
            OwnerKey(LLM_BATCHES.kind, *key), claims(observed, self._nodes.nodes()), observed.now
        )
        return replace(observed, turn=next(iter(found.values()), NO_MATTER))

    def _with_clusters(self, key: Key, observed: Observed) -> Observed:
        clusters = self._cache.owned_by(OwnerKey(LLM_BATCHES.kind, *key), RAY_CLUSTERS)
        return replace(observed, ray_clusters=tuple(clusters))

    def _service(self, key: Key, observed: Observed) -> Referred | None:
        """Return the target of `serviceRef`. An ended batch no longer watches its target."""
        reference = observed.subject.spec.service_ref if observed.subject is not None else None
        if reference is None or observed.finished:
            self._references.forget(key)
            return None
        return self._references.look(key, SERVICES[reference.kind], reference.name)

    def _look(self, manifest: Mapping[str, Any], now: datetime) -> Observed:
        batch, problems = read(manifest)
        return Observed(manifest, batch, problems, now, kuberay_installed=self._watches.kuberay_installed)


def read(manifest: Mapping[str, Any]) -> tuple[LLMBatch | None, tuple[str, ...]]:
    """Return the batch that a manifest describes, and the problems of its spec."""
    return read_object(manifest, LLMBatch.from_manifest, validation.problems)
