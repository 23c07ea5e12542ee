"""Decision to write the best settings into the LLMService, and its outcome: a pure function.

The status first announces the write, then the operator writes, then the status confirms the write. After a
crash in between, the service's arguments show which of the two steps was last.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from daybreak.api.common.unstructured import written
from daybreak.api.gates.rollout import RolloutPhase, RolloutStatus
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmbenchmark.spec import ApplyTo
from daybreak.api.llmbenchmark.status import (
    UNDER_WAY,
    BenchmarkPhase,
    LLMBenchmarkStatus,
    PatchState,
    PatchStatus,
)
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmbenchmark.decide.steps import words
from daybreak.kinds.llmbenchmark.objects.target import TargetMissing, measured, target


@dataclass(frozen=True)
class ObservedPatch:
    """Observation of an ended benchmark and of its service."""

    benchmark: LLMBenchmark
    status: LLMBenchmarkStatus
    now: datetime
    service: LLMService | None = None
    """LLMService of the benchmark's reference, if its spec is valid."""
    observed_generation: int = 0
    """Generation that the service's status describes."""
    rollout: RolloutStatus | None = None


@dataclass(frozen=True)
class PatchDecision:
    """Decision on the patch of the LLMService."""

    status: PatchStatus
    write: bool = False
    """True if the operator must write the arguments now."""


def decide(observed: ObservedPatch) -> PatchDecision | None:
    """Return the decision on the patch, or None if there is nothing to do or to report."""
    status = observed.status
    if (
        observed.benchmark.spec.apply_mode is not ApplyTo.PATCH
        or status.phase is not BenchmarkPhase.SUCCEEDED
    ):
        return None
    if status.completion_time is None:
        return None
    patch = status.patch
    if patch is None:
        return PatchDecision(_begun(observed))
    if patch.state is PatchState.WRITING:
        return _to_write(observed, patch)
    if patch.state in UNDER_WAY:
        return PatchDecision(_rolled_out(observed, patch))
    return None


def _begun(observed: ObservedPatch) -> PatchStatus:
    """Return the status of a patch before its write, or with the reason why nothing is written."""
    reference, gain = observed.benchmark.spec.service_ref, observed.status.gain
    name = reference.name if reference is not None else ""
    swept = {each.argument for each in observed.benchmark.spec.sweep}
    args = {key: value for key, value in (observed.status.recommended or {}).items() if key in swept}

    def nothing(why: str) -> PatchStatus:
        message = f"nothing is written: {why}"
        return PatchStatus(
            state=PatchState.NOT_WRITTEN,
            service=name,
            start_time=written(observed.now),
            message=message[:2000],
        )

    if not args:
        return nothing("the service's own arguments are the best that was measured")
    exceeded = _exceeded_limit(observed.status)
    if not exceeded and (gain is None or not gain.significant):
        return nothing(f"{words(args)} is not better beyond noise")
    try:
        found = target(observed.benchmark, observed.service)
    except TargetMissing as error:
        return nothing(str(error))
    service = observed.service
    if service is None or found.model is None or measured(found) != observed.status.engine_hash:
        return nothing(f"LLMService {name} has changed since the measurement; create a new LLMBenchmark")
    before = found.model.engine.args
    return PatchStatus(
        state=PatchState.WRITING,
        service=name,
        uid=service.uid,
        model=found.model.name,
        args=args,
        previous_args={key: before[key] for key in args if key in before},
        start_time=written(observed.now),
        message=f"{words(args)} is about to be written into model {found.model.name}{exceeded}"[:2000],
    )


def _exceeded_limit(status: LLMBenchmarkStatus) -> str:
    """Return the limit that the service's own arguments exceeded at each load; empty if a load kept it.

    Such a baseline has no value, and therefore no gain. The best step keeps the limits.
    """
    loads = [step for step in status.steps if not step.settings and (step.clients or step.rate)]
    if not loads or status.baseline is not None or status.gain is not None or status.best is None:
        return ""
    return f"; the service's own arguments exceed a limit: {loads[0].failure or 'no reason'}"


def _to_write(observed: ObservedPatch, patch: PatchStatus) -> PatchDecision:
    there = arguments(observed.service, patch)
    if observed.service is None or there is None:
        return PatchDecision(_ended(patch, PatchState.NOT_WRITTEN, "the service, or its model, is gone"))
    if there == patch.args:
        return PatchDecision(is_written(patch, observed.service.generation))
    if there != patch.previous_args:
        message = f"another client has since set {words(there)}; nothing is written"
        return PatchDecision(_ended(patch, PatchState.OVERWRITTEN, message))
    return PatchDecision(patch, write=True)


def _rolled_out(observed: ObservedPatch, patch: PatchStatus) -> PatchStatus:
    """Return the status of the patch during the service's rollout of it."""
    there = arguments(observed.service, patch)
    was = f"before: {words(patch.previous_args) if patch.previous_args else 'not set'}"
    if observed.service is None or there is None:
        return _ended(patch, PatchState.OVERWRITTEN, f"the service, or its model, is gone; {was}")
    if observed.service.generation < (patch.generation or 0):
        return patch  # older than the written state
    if there != patch.args:
        message = f"another client has since written {words(there) if there else 'other arguments'}; {was}"
        return _ended(patch, PatchState.OVERWRITTEN, message)
    rollout = observed.rollout
    if rollout is None or observed.observed_generation < (patch.generation or 0):
        return patch
    cause = f": {rollout.message}" if rollout.message else ""
    if rollout.phase is RolloutPhase.COMPLETE:
        return _ended(patch, PatchState.ROLLED_OUT, f"the service runs with {words(patch.args)}; {was}")
    if rollout.phase is RolloutPhase.ROLLED_BACK:
        message = (
            f"the service could not start with {words(patch.args)} and runs as before{cause}. Its spec still "
            f"contains them: restore it; {was}. They are not written again"
        )
        return _ended(patch, PatchState.ROLLED_BACK, message)
    if rollout.phase is RolloutPhase.FAILED:
        message = (
            f"the service could not start with {words(patch.args)}{cause}; {was}. They are not written again"
        )
        return _ended(patch, PatchState.ROLLOUT_FAILED, message)
    message = f"{words(patch.args)} is written; the rollout is {rollout.phase}{cause}; {was}"
    return patch.model_copy(update={"message": message[:2000]})


def is_written(patch: PatchStatus, generation: int) -> PatchStatus:
    """Return the status of a patch that is written into the given generation of the service."""
    was = words(patch.previous_args) if patch.previous_args else "not set"
    message = f"{words(patch.args)} is written into model {patch.model}; before: {was}"
    update = {"state": PatchState.ROLLING_OUT, "generation": generation, "message": message[:2000]}
    return patch.model_copy(update=update)


def refused(patch: PatchStatus, why: str, *, forbidden: bool) -> PatchStatus:
    """Return the status of a patch that the API server has rejected."""
    hint = " (the chart's value benchmarks.patchServices gives the right)" if forbidden else ""
    return _ended(patch, PatchState.PATCH_REJECTED, f"nothing is written{hint}: {why}")


def fields(patch: PatchStatus) -> dict[str, Any]:
    """Return the fields to write into the LLMService."""
    return {"spec": {"models": [{"name": patch.model, "engine": {"args": dict(patch.args)}}]}}


def arguments(service: LLMService | None, patch: PatchStatus) -> Mapping[str, Any] | None:
    """Return the service's current values of the written arguments, or None without service or model."""
    if service is None or service.uid != patch.uid:
        return None
    for model in service.spec.models:
        if model.name == patch.model:
            return {key: model.engine.args[key] for key in patch.args if key in model.engine.args}
    return None


def _ended(patch: PatchStatus, state: PatchState, message: str) -> PatchStatus:
    return patch.model_copy(update={"state": state, "message": message[:2000]})
