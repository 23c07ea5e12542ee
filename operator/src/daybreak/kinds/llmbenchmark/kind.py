"""Controller of LLMBenchmarks, as the operator runs it."""

from daybreak.api.llmbenchmark.definition import LLM_BENCHMARKS
from daybreak.controller.asking.job_events import JobEvents
from daybreak.controller.jobs.reconciler import Reconciler
from daybreak.controller.jobs.references import References
from daybreak.controller.jobs.reports import JobProber, http_reporter
from daybreak.controller.owner_kind import OwnerKind
from daybreak.controller.parts import Parts
from daybreak.kinds.llmbenchmark.job_kind import BenchmarkKind
from daybreak.kinds.llmbenchmark.observe.observer import Observer
from daybreak.kinds.llmbenchmark.observe.progress_reports import PATH, REPORT_LIMIT, read
from daybreak.kinds.llmbenchmark.patcher import Patcher
from daybreak.manifests.resources import OF_BENCHMARKS, PODS


def llm_benchmarks(parts: Parts) -> OwnerKind:
    """Build the controller of LLMBenchmarks."""
    kind, cache = BenchmarkKind(parts.platform), parts.cache
    prober = JobProber(http_reporter(PATH, read, REPORT_LIMIT), parts.enqueue_of(LLM_BENCHMARKS))
    observer = Observer(cache, References(cache, parts.enqueue_of(LLM_BENCHMARKS)))
    events = JobEvents(parts.api, parts.enqueue_of(LLM_BENCHMARKS))
    reconciler = Reconciler(kind, observer, parts.api, cache, prober, parts.applier, parts.may_act, events)
    patcher = Patcher(reconciler, parts.api, cache, parts.applier, parts.may_act)
    return OwnerKind(LLM_BENCHMARKS, cache, (*OF_BENCHMARKS, PODS), patcher, [prober, events])
