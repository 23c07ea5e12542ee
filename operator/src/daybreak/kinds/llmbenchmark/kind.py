"""The kind LLMBenchmark, as the operator runs it."""

from collections.abc import Callable

from daybreak.api.llmbenchmark.definition import LLM_BENCHMARKS
from daybreak.controller.jobs.reconciler import Reconciler
from daybreak.controller.jobs.reports import JobProber, http_reporter
from daybreak.controller.owner_kind import OwnerKind
from daybreak.kinds.llmbenchmark.job_kind import BenchmarkKind
from daybreak.kinds.llmbenchmark.observe.observer import Observer
from daybreak.kinds.llmbenchmark.observe.progress_reports import PATH, REPORT_LIMIT, read
from daybreak.kube.apply import Applier
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.resources import OF_BENCHMARKS, PODS
from daybreak.platform import Platform


def llm_benchmarks(
    api: Api,
    cache: Cache,
    platform: Platform,
    applier: Applier,
    enqueue: Callable[[Key], None],
    may_act: Callable[[], bool],
) -> OwnerKind:
    """Who looks after every LLMBenchmark.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        platform: Settings of the installation.
        applier: Writes objects.
        enqueue: Has an LLMBenchmark reconciled.
        may_act: Whether the lease is held this moment.
    """
    prober = JobProber(http_reporter(PATH, read, REPORT_LIMIT), enqueue)
    reconciler = Reconciler(BenchmarkKind(platform), Observer(cache), api, cache, prober, applier, may_act)
    return OwnerKind(LLM_BENCHMARKS, cache, (*OF_BENCHMARKS, PODS), reconciler, [prober])
