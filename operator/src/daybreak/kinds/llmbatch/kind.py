"""Controller of LLMBatches, as the operator runs it."""

from daybreak.api.llmbatch.definition import LLM_BATCHES
from daybreak.controller.jobs.reconciler import Reconciler
from daybreak.controller.jobs.references import References
from daybreak.controller.jobs.reports import JobProber, http_reporter
from daybreak.controller.owner_kind import OwnerKind
from daybreak.controller.parts import Parts
from daybreak.kinds.llmbatch.job_kind import BatchKind
from daybreak.kinds.llmbatch.observe.observer import Observer
from daybreak.kinds.llmbatch.observe.progress_reports import PATH, read
from daybreak.manifests.resources import OF_BATCHES, PODS, RAY_CLUSTERS


def llm_batches(parts: Parts) -> OwnerKind:
    """Build the controller of LLMBatches."""
    kind, cache = BatchKind(parts.platform), parts.cache
    references = References(cache, parts.enqueue_of(LLM_BATCHES))
    observer = Observer(cache, parts.watches, parts.nodes, parts.turns, references)
    prober = JobProber(http_reporter(PATH, read), parts.enqueue_of(LLM_BATCHES))
    reconciler = Reconciler(kind, observer, parts.api, cache, prober, parts.applier, parts.may_act)
    return OwnerKind(LLM_BATCHES, cache, (*OF_BATCHES, RAY_CLUSTERS, PODS), reconciler, [prober])
