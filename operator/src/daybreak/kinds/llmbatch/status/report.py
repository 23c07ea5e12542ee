"""The status of a batch, put together from what was decided."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from daybreak.api.common.conditions import Condition
from daybreak.api.common.unstructured import mapping, mappings, parse_time, text, whole, written
from daybreak.api.llmbatch.status import (
    BatchConditionType,
    BatchPhase,
    BatchReason,
    LLMBatchStatus,
    RowCounts,
    TokenCounts,
)
from daybreak.kinds.llmbatch.decide.decision import Decision, Verdict
from daybreak.kinds.llmbatch.observe.observed import Observed
from daybreak.ray.views.ray_pods import accelerators, pod_views

MESSAGE_LIMIT = 8000
COUNT_SECONDS = 20.0
"""How often the cost of a batch is written while nothing else changes."""
_ETA_STEP = 10
"""Seconds to which the end is rounded: it need not be written anew for less."""
Truth = Literal["True", "False"]


@dataclass(frozen=True)
class Event:
    """Something worth an event."""

    warning: bool
    reason: str
    note: str


def report(seen: Observed, decision: Decision) -> LLMBatchStatus:
    """The status as it should be."""
    before = LLMBatchStatus.model_validate(_known(seen))
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
            "conditions": _conditions(seen, before, verdict),
        }
        | counted
        | _cost(seen, before)
    )


def events(before: LLMBatchStatus, after: LLMBatchStatus) -> list[Event]:
    """What has turned: the phase, or why somebody has to act."""
    found = []
    stalled = {each.type: each for each in after.conditions}.get(BatchConditionType.STALLED)
    was = {each.type: each for each in before.conditions}.get(BatchConditionType.STALLED)
    if stalled is not None and stalled.status == "True":
        if was is None or was.status != "True" or was.reason != stalled.reason:
            found.append(Event(True, stalled.reason, stalled.message))
    elif after.phase is not before.phase and after.phase is not None:
        told = (
            BatchPhase.RUNNING,
            BatchPhase.SUSPENDED,
            BatchPhase.SUCCEEDED,
        )
        if after.phase in told:
            reason = {each.type: each for each in after.conditions}[BatchConditionType.RECONCILING]
            found.append(Event(False, after.phase.value, reason.message))
    return found


def _known(seen: Observed) -> dict[str, object]:
    """The status before, as far as it is one; another operator may have known more fields."""
    names = {field.alias or name for name, field in LLMBatchStatus.model_fields.items()}
    return {name: value for name, value in seen.status.items() if name in names}


def _generation(seen: Observed) -> int:
    return max(0, whole(mapping(seen.manifest.get("metadata")).get("generation")))


def _eta(seen: Observed, before: LLMBatchStatus) -> str | None:
    said = seen.progress
    if said is None or not said.rows_per_second:
        return before.eta
    end = seen.now + timedelta(seconds=(said.total - said.done) / min(said.rows_per_second, 1e9))
    return written(datetime.fromtimestamp(round(end.timestamp() / _ETA_STEP) * _ETA_STEP, end.tzinfo))


def _cost(seen: Observed, before: LLMBatchStatus) -> dict[str, object]:
    """What is held, and what it has cost so far.

    What was held since the last count counts; in between it is not written anew as long as nothing changes.
    """
    held = 0
    model = seen.batch.spec.model if seen.batch is not None else None
    if model is not None:
        held = sum(accelerators(pod, model.accelerator.resource) for pod in pod_views(seen.pods))
    until = parse_time(before.gpu_seconds_until) if before.gpu_seconds_until else None
    passed = max(0.0, (seen.now - until).total_seconds()) if until is not None else 0.0
    if held == before.gpus and passed < COUNT_SECONDS and until is not None:
        return {}
    if held == 0 and before.gpus == 0:
        return {}
    total = round(before.gpu_seconds + before.gpus * passed, 1)
    return {"gpus": held, "gpu_seconds": total, "gpu_seconds_until": written(seen.now)}


def _conditions(seen: Observed, before: LLMBatchStatus, verdict: Verdict) -> list[Condition]:
    reason, message = verdict.reason, verdict.message
    under_way = not verdict.final and not verdict.stalled and verdict.phase is not BatchPhase.SUSPENDED
    made: list[tuple[BatchConditionType, bool, BatchReason, str]] = [
        (BatchConditionType.COMPLETE, verdict.phase is BatchPhase.SUCCEEDED, reason, message),
        (BatchConditionType.FAILED, verdict.phase is BatchPhase.FAILED, reason, message),
        (BatchConditionType.RECONCILING, under_way, reason, message),
        (BatchConditionType.STALLED, verdict.stalled, reason, message),
    ]
    old = {text(item.get("type")): item for item in mappings(seen.status.get("conditions"))}
    found = []
    for kind, holds, why, words in made:
        truth: Truth = "True" if holds else "False"
        previous = old.get(kind.value, {})
        since = text(previous.get("lastTransitionTime")) if previous.get("status") == truth else ""
        found.append(
            Condition(
                type=kind.value,
                status=truth,
                reason=why.value,
                message=words[:MESSAGE_LIMIT],
                last_transition_time=since or written(seen.now),
                observed_generation=_generation(seen),
            )
        )
    return found
