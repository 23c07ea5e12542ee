"""Reconcile of an LLMService: the parts that differ from other workloads."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from daybreak.api.gates.gate_state import GateState
from daybreak.api.llmservice.status import LLMServiceStatus
from daybreak.controller.asking.job_events import JobEvents, waiting
from daybreak.controller.asking.prober import Prober, Question
from daybreak.controller.parts import Parts
from daybreak.kinds.llmservice.decide.caches import caches
from daybreak.kinds.llmservice.decide.cluster_bounds import cluster_bounds, redundant_cluster
from daybreak.kinds.llmservice.decide.finished_clusters import finished_clusters
from daybreak.kinds.llmservice.decide.plan import ServicePlan, bypasses_gateway, make_plan, objects
from daybreak.kinds.llmservice.decide.view import View
from daybreak.kinds.llmservice.functions import FUNCTIONS
from daybreak.kinds.llmservice.observe.adapter_reports import AdapterProber, replicas
from daybreak.kinds.llmservice.observe.copy_reports import CopyProber, copying
from daybreak.kinds.llmservice.observe.observed import Observed
from daybreak.kinds.llmservice.observe.observer import Observer, active_cluster, base_url
from daybreak.loop import reconciler
from daybreak.manifests.keys import Key
from daybreak.manifests.plan import Live
from daybreak.manifests.resources import OWNED
from daybreak.workloads.decision import Decided


class Reconciler(reconciler.Reconciler[Observed, View, ServicePlan]):
    """Reconciler that applies an LLMService to the cluster and reports the result.

    Args:
        parts: Dependencies of every kind.
        observer: Observer of services.
        prober: Prober of models.
        adapters: Prober of replicas for reports on their adapters.
        copies: Prober of the Jobs that fill PVCs.
        events: Reader of the reasons why Jobs have no pods.
    """

    def __init__(
        self,
        parts: Parts,
        observer: Observer,
        prober: Prober,
        adapters: AdapterProber,
        copies: CopyProber,
        events: JobEvents,
    ) -> None:
        super().__init__(parts, observer, FUNCTIONS, OWNED, prober)
        self._adapters = adapters
        self._copies = copies
        self._events = events

    def prepare(self, key: Key, observed: Observed) -> Observed:
        """Add the reports on adapters, on copies, and on rejected pods of Jobs."""
        return replace(
            observed,
            reports=self._adapters.reports(key, replicas(observed, active_cluster(observed.ray_service))),
            copies=self._copies.copies(key, copying(observed)),
            rejections=self._events.rejections(key, waiting(observed.jobs, observed.pods)),
        )

    def objects(self, observed: Observed) -> Sequence[dict[str, Any]]:
        """Return the desired objects of a service."""
        return objects(observed, self._platform)

    def plan(self, observed: Observed, desired: Sequence[dict[str, Any]], live: Live) -> ServicePlan:
        """Return the plan that changes the live objects into the desired ones."""
        return make_plan(observed, self._platform, desired, live)

    def with_plan(self, observed: Observed, plan: ServicePlan) -> Observed:
        """Add the results of the plan: conflicting names, this operator's build, and possible changes."""
        return replace(observed, foreign=plan.foreign, own=plan.own, changes=plan.changes)

    async def carry_on(self, observed: Observed, plan: ServicePlan) -> Sequence[float]:
        """Set the bounds of worker groups, and delete Ray clusters that are no longer needed."""
        again: list[float] = []
        if not plan.filling:
            again += await self._writer.set_bounds(observed.ray_clusters, cluster_bounds(observed))
            pending = redundant_cluster(observed)
            if pending and observed.ray_service is not None:
                again += await self._writer.call_off(observed.ray_service, pending)
        return again + await self._writer.delete_clusters(finished_clusters(observed))

    def questions(self, observed: Observed) -> Sequence[Question]:
        """Return the probe of each model, which bypasses the gateway because a gate may hold requests."""
        service, base = observed.subject, base_url(observed)
        if service is None or base is None:
            return ()
        revision = observed.own_revision.name if observed.own_revision is not None else ""
        about = (service.uid, service.generation, revision, active_cluster(observed.ray_service))
        held = {name for name, state in observed.sleep_states.items() if state.gate is not GateState.OPEN}
        return [
            Question(service, model, base, about, waking=model.name in held) for model in service.spec.models
        ]

    def forget(self, key: Key) -> None:
        """Drop the data of a deleted service."""
        self._adapters.forget(key)
        self._copies.forget(key)
        self._events.forget(key)

    def is_due(self, observed: Observed, decided: Decided, status: LLMServiceStatus) -> bool:
        """Return True if the address may bypass the gateway, or if a complete copy's Job may be deleted."""
        leads_past = bypasses_gateway(observed, decided.states) and not (
            observed.gateway and observed.gateway.past
        )
        copies = caches(observed, observed.subject) if observed.subject is not None else ()
        return leads_past or any(copy.complete and not copy.noted for copy in copies)
