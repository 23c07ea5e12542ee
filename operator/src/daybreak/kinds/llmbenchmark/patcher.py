"""Patcher that writes the best settings of an ended benchmark into its LLMService, once."""

from collections.abc import Callable
from datetime import UTC, datetime

from daybreak.api.common import names
from daybreak.api.common.unstructured import at, mapping, whole
from daybreak.api.llmbenchmark.definition import LLM_BENCHMARKS, LLMBenchmark
from daybreak.api.llmbenchmark.status import UNDER_WAY, LLMBenchmarkStatus, PatchState, PatchStatus
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.llmservice.status import LLMServiceStatus
from daybreak.api.schema.custom_object import InvalidSpec, known_status
from daybreak.controller.again import Again
from daybreak.controller.owner_kind import ObjectReconciler
from daybreak.controller.writer import Writer
from daybreak.kinds.llmbenchmark.decide.patch import (
    ObservedPatch,
    PatchDecision,
    decide,
    fields,
    is_written,
    refused,
)
from daybreak.kinds.llmbenchmark.status.patch import events, report
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing.apply import Applier
from daybreak.kube.writing.fields import set_fields
from daybreak.manifests.keys import Key

LOOK_SECONDS = 5.0
"""Interval in seconds of checks of the service's rollout. Changes of services trigger no reconcile of
benchmarks."""


class Patcher:
    """Reconciler that patches the LLMService of a benchmark after the reconcile of its job.

    Args:
        jobs: Reconciler of the benchmark and its job.
        api: The API server.
        cache: Cached objects of the cluster.
        applier: Writer of owned objects. The patch owns no part of the service.
        may_act: Return True while the operator holds the lease.
    """

    def __init__(
        self,
        jobs: ObjectReconciler,
        api: Api,
        cache: Cache,
        applier: Applier,
        may_act: Callable[[], bool],
    ) -> None:
        self._jobs = jobs
        self._api = api
        self._cache = cache
        self._writer = Writer(api, cache, applier, LLM_BENCHMARKS, may_act)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one benchmark, and return the seconds until its next reconcile.

        None means to wait for a change.
        """
        again = Again()
        seconds = await self._jobs.reconcile(key)
        if seconds is not None:
            again.after(seconds)
        await self._patch(key, again)
        return again.seconds

    async def _patch(self, key: Key, again: Again) -> None:
        manifest = self._cache.get(LLM_BENCHMARKS, key)
        observed = self._observed(key)
        decision = decide(observed) if observed is not None else None
        if manifest is None or observed is None or decision is None:
            return
        patch = decision.status
        if decision.write:
            patch = await self._written(key, decision)
        before = observed.status
        after = report(before, patch, observed.now, observed.benchmark.generation)
        reply = await self._writer.write(key, manifest, after, lambda *_: events(before, patch), observed.now)
        if not reply.gone and patch.state in UNDER_WAY:
            again.after(0.0 if patch.state is PatchState.WRITING else LOOK_SECONDS)

    async def _written(self, key: Key, decision: PatchDecision) -> PatchStatus:
        """Write the arguments into the service.

        Raises:
            ApiError: With `conflict` if the service has changed. The decision is then repeated.
        """
        patch = decision.status
        live = self._cache.get(LLM_SERVICES, Key(key.namespace, patch.service))
        owner = self._cache.get(LLM_BENCHMARKS, key)
        if live is None or owner is None:
            return patch
        manager = names.benchmark_manager(key.name, owner["metadata"]["uid"])
        self._writer.check()
        try:
            found = await set_fields(self._api, LLM_SERVICES, live, fields(patch), manager)
        except ApiError as error:
            if not error.refused:
                raise
            return refused(patch, error.message, forbidden=error.forbidden)
        return is_written(patch, whole(at(found, "metadata").get("generation")))

    def _observed(self, key: Key) -> ObservedPatch | None:
        manifest = self._cache.get(LLM_BENCHMARKS, key)
        try:
            benchmark = LLMBenchmark.from_manifest(manifest) if manifest is not None else None
        except InvalidSpec:
            return None
        reference = benchmark.spec.service_ref if benchmark is not None else None
        if manifest is None or benchmark is None or reference is None:
            return None
        status = known_status(LLMBenchmarkStatus, mapping(manifest.get("status")))
        live = self._cache.get(LLM_SERVICES, Key(key.namespace, reference.name))
        observed = ObservedPatch(benchmark, status, datetime.now(UTC))
        try:
            service = LLMService.from_manifest(live) if live is not None else None
        except InvalidSpec:
            service = None
        if live is None or service is None:
            return observed
        reply = known_status(LLMServiceStatus, mapping(live.get("status")))
        return ObservedPatch(
            benchmark, status, observed.now, service, reply.observed_generation, reply.rollout
        )
