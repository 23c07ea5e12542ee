"""Gathering, once, everything that one reconcile of a batch decides on."""

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
"""What `serviceRef` may lead to."""


class Observer:
    """Reads the cache; asks the API server nothing.

    Args:
        cache: What is known of the cluster.
        watches: Fill the cache.
        nodes: Knows the nodes.
        turns: Knows whose turn it is among all workloads.
        references: Knows which services batches refer to.
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
        """What is seen of a batch, or None when there is none."""
        seen = self._jobs.observe(key)
        if seen is None:
            self._turns.forget(OwnerKey(LLM_BATCHES.kind, *key))
            self._references.forget(key)
            return None
        return replace(self._with_clusters(key, seen), service=self._service(key, seen))

    def again(self, key: Key, seen: Observed) -> Observed:
        """The objects of now, with the spec of that observation."""
        return self._with_clusters(key, self._jobs.again(key, seen))

    def heard(self, key: Key, seen: Observed) -> Observed:
        """What is seen, and whose turn it is now that the batch's progress is known."""
        found = self._turns.turns(
            OwnerKey(LLM_BATCHES.kind, *key), claims(seen, self._nodes.nodes()), seen.now
        )
        return replace(seen, turn=next(iter(found.values()), NO_MATTER))

    def _with_clusters(self, key: Key, seen: Observed) -> Observed:
        clusters = self._cache.owned_by(OwnerKey(LLM_BATCHES.kind, *key), RAY_CLUSTERS)
        return replace(seen, ray_clusters=tuple(clusters))

    def _service(self, key: Key, seen: Observed) -> Referred | None:
        """What it refers to. One that has ended looks at nothing any more."""
        reference = seen.subject.spec.service_ref if seen.subject is not None else None
        if reference is None or seen.finished:
            self._references.forget(key)
            return None
        return self._references.look(key, SERVICES[reference.kind], reference.name)

    def _look(self, manifest: Mapping[str, Any], now: datetime) -> Observed:
        batch, problems = read(manifest)
        return Observed(manifest, batch, problems, now, kuberay_installed=self._watches.kuberay_installed)


def read(manifest: Mapping[str, Any]) -> tuple[LLMBatch | None, tuple[str, ...]]:
    """A batch from its manifest, and what is wrong with it."""
    return read_object(manifest, LLMBatch.from_manifest, validation.problems)
