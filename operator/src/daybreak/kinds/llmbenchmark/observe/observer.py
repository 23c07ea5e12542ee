"""Observer of benchmarks: gathers all inputs of one reconcile, once."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from daybreak.api.common import names
from daybreak.api.llmbenchmark import validation
from daybreak.api.llmbenchmark.definition import LLM_BENCHMARKS, LLMBenchmark
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.schema.custom_object import InvalidSpec, read_object
from daybreak.controller.jobs.observer import JobObserver
from daybreak.controller.jobs.references import References
from daybreak.kinds.llmbenchmark.observe.observed import Observed
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key
from daybreak.manifests.resources import JOBS


class Observer:
    """Observer of benchmarks that reads only the cache, never the API server.

    Args:
        cache: Cached objects of the cluster.
        references: Registry of the services to which benchmarks refer.
    """

    def __init__(self, cache: Cache, references: References) -> None:
        self._references = references
        self._jobs = JobObserver(cache, LLM_BENCHMARKS, JOBS, names.benchmark_job, _look)

    def observe(self, key: Key) -> Observed | None:
        """Return the observation of a benchmark, or None if it does not exist."""
        observed = self._jobs.observe(key)
        if observed is None:
            self._references.forget(key)
            return None
        return self._with_service(key, observed)

    def again(self, key: Key, observed: Observed) -> Observed:
        """Return the observation with the current objects and its previous spec."""
        return self._with_service(key, self._jobs.again(key, observed))

    def received(self, key: Key, observed: Observed) -> Observed:
        """Return the observation unchanged: no other part depends on the job's progress."""
        return observed

    def _with_service(self, key: Key, observed: Observed) -> Observed:
        reference = observed.subject.spec.service_ref if observed.subject is not None else None
        if reference is None:
            self._references.forget(key)
            return replace(observed, referred=None, service=None)
        referred = self._references.look(key, LLM_SERVICES, reference.name)
        try:
            service = LLMService.from_manifest(referred.manifest) if referred.manifest is not None else None
        except InvalidSpec:
            service = None
        return replace(observed, referred=referred, service=service)


def _look(manifest: Mapping[str, Any], now: datetime) -> Observed:
    return Observed(manifest, *read(manifest), now)


def read(manifest: Mapping[str, Any]) -> tuple[LLMBenchmark | None, tuple[str, ...]]:
    """Return the benchmark that a manifest describes, and the problems of its spec."""
    return read_object(manifest, LLMBenchmark.from_manifest, validation.problems)
