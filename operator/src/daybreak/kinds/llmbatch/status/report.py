"""Status of a batch, built from the decision."""

from datetime import datetime, timedelta

from daybreak.api.common.conditions import MAX_AFTER
from daybreak.api.common.unstructured import written
from daybreak.api.jobs.words import JobPhase
from daybreak.api.llmbatch.status import (
    BatchConditionType,
    BatchPhase,
    BatchReason,
    LLMBatchStatus,
    RowCounts,
    TokenCounts,
)
from daybreak.api.schema.custom_object import known_status
from daybreak.jobs import status
from daybreak.kinds.llmbatch.decide.decision import Decision
from daybreak.kinds.llmbatch.observe.observed import Observed
from daybreak.problems.events import Event
from daybreak.ray.views.ray_pods import accelerators, pod_views

ACTION = "Batch"
"""Action of every event of a batch."""
_ETA_STEP = 10
"""Unit in seconds to which the expected end is rounded, so that smaller changes cause no status write."""


def report(observed: Observed, decision: Decision) -> LLMBatchStatus:
    """Return the desired status of the batch."""
    before = known_status(LLMBatchStatus, observed.status)
    same = status.update(observed, before, decision, _held(observed))
    verdict, reply = decision.verdict, observed.progress
    if verdict is None:
        return before.model_copy(update=same)
    counted: dict[str, object] = {}
    if reply is not None and (reply.total or reply.final):
        counted = {
            "rows": RowCounts(total=reply.total, done=reply.done, failed=reply.failed),
            "tokens": TokenCounts(prompt=reply.prompt_tokens, completion=reply.completion_tokens),
            "progress": f"{reply.done}/{reply.total}",
            "errors": list(reply.errors) or None,
        }
    running = reply is not None and verdict.phase is JobPhase.RUNNING
    return before.model_copy(
        update=same
        | {
            "phase": BatchPhase(verdict.phase),
            "rows_per_second": reply.rows_per_second if running and reply is not None else None,
            "tokens_per_second": reply.tokens_per_second if running and reply is not None else None,
            "expected_completion_time": _eta(observed, before) if running else None,
            "queued_behind": list(decision.after)[:MAX_AFTER] or None,
        }
        | counted
    )


def events(before: LLMBatchStatus, after: LLMBatchStatus) -> list[Event]:
    """Return an event if the phase changed, or if the reason for required action changed."""
    now = {each.type: each for each in after.conditions}
    stalled = now.get(BatchConditionType.STALLED)
    if after.queued_behind and not before.queued_behind and (stalled is None or stalled.status != "True"):
        message = now[BatchConditionType.RECONCILING].message
        return [Event(ACTION, False, BatchReason.WAITING_FOR_ACCELERATORS, message)]
    return status.events(ACTION, before, after)


def _eta(observed: Observed, before: LLMBatchStatus) -> str | None:
    reply = observed.progress
    if reply is None or not reply.rows_per_second:
        return before.expected_completion_time
    end = observed.now + timedelta(seconds=(reply.total - reply.done) / min(reply.rows_per_second, 1e9))
    return written(datetime.fromtimestamp(round(end.timestamp() / _ETA_STEP) * _ETA_STEP, end.tzinfo))


def _held(observed: Observed) -> int:
    """Return the number of accelerators that the batch's pods use."""
    model = observed.subject.spec.model if observed.subject is not None else None
    if model is None:
        return 0
    return sum(accelerators(pod, model.accelerator.resource) for pod in pod_views(observed.pods))
