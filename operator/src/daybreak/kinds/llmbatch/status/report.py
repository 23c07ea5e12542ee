"""The status of a batch, put together from what was decided."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from daybreak.api.common.conditions import MAX_AFTER, Condition
from daybreak.api.common.unstructured import mapping, whole, written
from daybreak.api.llmbatch.status import (
    BatchConditionType,
    BatchPhase,
    BatchReason,
    LLMBatchStatus,
    RowCounts,
    TokenCounts,
)
from daybreak.controller import job_status
from daybreak.controller.events import Event
from daybreak.controller.job_status import Made
from daybreak.kinds.llmbatch.decide.decision import Decision, Verdict
from daybreak.kinds.llmbatch.observe.observed import Observed
from daybreak.ray.views.ray_pods import accelerators, pod_views

ACTION = "Batch"
"""Of every event of a batch."""
_ETA_STEP = 10
"""Seconds to which the end is rounded: it need not be written anew for less."""


def report(seen: Observed, decision: Decision) -> LLMBatchStatus:
    """The status as it should be."""
    before = known(seen.status)
    verdict = decision.verdict
    if verdict is None:
        return before.model_copy(update={"observed_generation": _generation(seen)} | _cost(seen, before))
    said = seen.progress
    counted = {}
    if said is not None and (said.total or said.final):
        counted = {
            "rows": RowCounts(total=said.total, done=said.done, failed=said.failed),
            "tokens": TokenCounts(prompt=said.prompt_tokens, completion=said.completion_tokens),
            "progress": f"{said.done}/{said.total}",
            "errors": list(said.errors) or None,
        }
    running = said is not None and verdict.phase is BatchPhase.RUNNING
    ended = verdict.final
    return before.model_copy(
        update={
            "observed_generation": _generation(seen),
            "phase": verdict.phase,
            "rows_per_second": said.rows_per_second if running and said is not None else None,
            "tokens_per_second": said.tokens_per_second if running and said is not None else None,
            "eta": _eta(seen, before) if running else None,
            "started": before.started or (written(seen.now) if seen.ray_job is not None else None),
            "finished": before.finished or (written(seen.now) if ended else None),
            "job": decision.job or None,
            "after": list(decision.after)[:MAX_AFTER] or None,
            "conditions": _conditions(seen, verdict),
        }
        | counted
        | _cost(seen, before)
    )


def events(before: LLMBatchStatus, after: LLMBatchStatus) -> list[Event]:
    """What has turned: the phase, or why somebody has to act."""
    now = {each.type: each for each in after.conditions}
    stalled = now.get(BatchConditionType.STALLED)
    if after.after and not before.after and (stalled is None or stalled.status != "True"):
        message = now[BatchConditionType.RECONCILING].message
        return [Event(ACTION, False, BatchReason.WAITING_FOR_ACCELERATORS, message)]
    told = (BatchPhase.RUNNING, BatchPhase.SUSPENDED, BatchPhase.SUCCEEDED)
    return job_status.events(ACTION, before, after, told)


def known(status: Mapping[str, object]) -> LLMBatchStatus:
    """A status as far as it is one; another operator may have known more fields."""
    names = {field.alias or name for name, field in LLMBatchStatus.model_fields.items()}
    return LLMBatchStatus.model_validate({name: value for name, value in status.items() if name in names})


def _generation(seen: Observed) -> int:
    return max(0, whole(mapping(seen.manifest.get("metadata")).get("generation")))


def _eta(seen: Observed, before: LLMBatchStatus) -> str | None:
    said = seen.progress
    if said is None or not said.rows_per_second:
        return before.eta
    end = seen.now + timedelta(seconds=(said.total - said.done) / min(said.rows_per_second, 1e9))
    return written(datetime.fromtimestamp(round(end.timestamp() / _ETA_STEP) * _ETA_STEP, end.tzinfo))


def _cost(seen: Observed, before: LLMBatchStatus) -> dict[str, object]:
    """What is held, and what it has cost so far."""
    held = 0
    model = seen.batch.spec.model if seen.batch is not None else None
    if model is not None:
        held = sum(accelerators(pod, model.accelerator.resource) for pod in pod_views(seen.pods))
    return job_status.cost(before, held, seen.now)


def _conditions(seen: Observed, verdict: Verdict) -> list[Condition]:
    reason, message = verdict.reason, verdict.message
    under_way = not verdict.final and not verdict.stalled and verdict.phase is not BatchPhase.SUSPENDED
    made = [
        Made(BatchConditionType.COMPLETE, verdict.phase is BatchPhase.SUCCEEDED, reason, message),
        Made(BatchConditionType.FAILED, verdict.phase is BatchPhase.FAILED, reason, message),
        Made(BatchConditionType.RECONCILING, under_way, reason, message),
        Made(BatchConditionType.STALLED, verdict.stalled, reason, message),
    ]
    return job_status.conditions(seen.status, made, seen.now, _generation(seen))
