"""Gathering, once, everything that one reconcile of a benchmark decides on."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.custom_object import InvalidSpec
from daybreak.api.llmbenchmark import validation
from daybreak.api.llmbenchmark.definition import LLM_BENCHMARKS, LLMBenchmark
from daybreak.api.llmservice.definition import LLM_SERVICES, LLMService
from daybreak.kinds.llmbenchmark.observe.observed import Observed
from daybreak.kube.cache import Cache, Key
from daybreak.kube.resources import JOBS, PODS


class Observer:
    """Reads the cache; asks the API server nothing."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def observe(self, key: Key) -> Observed | None:
        """What is seen of a benchmark, or None when there is none."""
        manifest = self._cache.get(LLM_BENCHMARKS, key)
        if manifest is None:
            return None
        benchmark, problems = read(manifest)
        return self.again(key, Observed(manifest, benchmark, problems, datetime.now(UTC)))

    def again(self, key: Key, seen: Observed) -> Observed:
        """The objects of now, with the spec of that observation."""
        return replace(
            seen,
            now=datetime.now(UTC),
            service=self._service(key, seen.benchmark),
            job=self._cache.get(JOBS, Key(key.namespace, names.benchmark_job(key.name))),
            pods=tuple(self._cache.of_service(PODS, Key(key.namespace, names.of_benchmark(key.name)))),
        )

    def _service(self, key: Key, benchmark: LLMBenchmark | None) -> LLMService | None:
        reference = benchmark.spec.service_ref if benchmark is not None else None
        if reference is None:
            return None
        manifest = self._cache.get(LLM_SERVICES, Key(key.namespace, reference.name))
        try:
            return LLMService.from_manifest(manifest) if manifest is not None else None
        except InvalidSpec:
            return None


def read(manifest: Mapping[str, Any]) -> tuple[LLMBenchmark | None, tuple[str, ...]]:
    """A benchmark from its manifest, and what is wrong with it."""
    try:
        benchmark = LLMBenchmark.from_manifest(manifest)
    except InvalidSpec as error:
        return None, (str(error),)
    return benchmark, validation.problems(benchmark)
