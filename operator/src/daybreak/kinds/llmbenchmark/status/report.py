"""The status of a benchmark, put together from what was decided."""

from collections.abc import Mapping

from daybreak.api.common.conditions import Condition
from daybreak.api.common.unstructured import mapping, whole, written
from daybreak.api.llmbenchmark.status import BenchmarkConditionType, BenchmarkPhase, LLMBenchmarkStatus
from daybreak.controller import job_status
from daybreak.controller.events import Event
from daybreak.controller.job_status import Made
from daybreak.kinds.llmbenchmark.decide.decision import Decision, Verdict
from daybreak.kinds.llmbenchmark.observe.observed import Observed, Progress
from daybreak.kinds.llmbenchmark.status.steps import gain_status, step_status, words
from daybreak.ray.views.ray_pods import accelerators, pod_views

ACTION = "Benchmark"
"""Of every event of a benchmark."""
_TOLD = (BenchmarkPhase.RUNNING, BenchmarkPhase.SUSPENDED, BenchmarkPhase.SUCCEEDED)


def report(seen: Observed, decision: Decision) -> LLMBenchmarkStatus:
    """The status as it should be."""
    before = known(seen.status)
    verdict = decision.verdict
    if verdict is None:
        return before.model_copy(update={"observed_generation": _generation(seen)} | _cost(seen, before))
    update: dict[str, object] = {
        "observed_generation": _generation(seen),
        "phase": verdict.phase,
        "progress": verdict.message[:256] if verdict.phase is BenchmarkPhase.RUNNING else None,
        "started": before.started or (written(seen.now) if seen.job is not None else None),
        "finished": before.finished or (written(seen.now) if verdict.final else None),
        "job": decision.job or None,
        "conditions": _conditions(seen, verdict),
    }
    if seen.progress is not None:
        update |= _measured(seen.progress)
    return before.model_copy(update=update | _cost(seen, before))


def events(before: LLMBenchmarkStatus, after: LLMBenchmarkStatus) -> list[Event]:
    """What has turned: the phase, or why somebody has to act."""
    return job_status.events(ACTION, before, after, _TOLD)


def known(status: Mapping[str, object]) -> LLMBenchmarkStatus:
    """A status, as far as it is one; another operator may have known more fields."""
    fields = {field.alias or name for name, field in LLMBenchmarkStatus.model_fields.items()}
    return LLMBenchmarkStatus.model_validate({n: value for n, value in status.items() if n in fields})


def _measured(said: Progress) -> dict[str, object]:
    best = step_status(said.best) if said.best is not None else None
    return {
        "steps": [step_status(each) for each in said.steps],
        "best": best,
        "baseline": step_status(said.baseline) if said.baseline is not None else None,
        "gain": gain_status(said.gain),
        "noise": said.noise,
        "recommended": best.settings if best is not None else None,
        "recommendation": words(best.settings) if best is not None else None,
        "stopped": said.stopped or None,
        "engine_starts": said.engine_starts,
    }


def _generation(seen: Observed) -> int:
    return max(0, whole(mapping(seen.manifest.get("metadata")).get("generation")))


def _cost(seen: Observed, before: LLMBenchmarkStatus) -> dict[str, object]:
    """What is held, and what it has cost so far."""
    resources = set()
    if seen.benchmark is not None and seen.benchmark.spec.model is not None:
        resources.add(seen.benchmark.spec.model.accelerator.resource)
    if seen.service is not None:
        resources |= {model.accelerator.resource for model in seen.service.spec.models}
    held = sum(accelerators(pod, resource) for pod in pod_views(seen.pods) for resource in sorted(resources))
    return job_status.cost(before, held, seen.now)


def _conditions(seen: Observed, verdict: Verdict) -> list[Condition]:
    reason, message = verdict.reason, verdict.message
    under_way = not verdict.final and not verdict.stalled and verdict.phase is not BenchmarkPhase.SUSPENDED
    made = [
        Made(BenchmarkConditionType.COMPLETE, verdict.phase is BenchmarkPhase.SUCCEEDED, reason, message),
        Made(BenchmarkConditionType.FAILED, verdict.phase is BenchmarkPhase.FAILED, reason, message),
        Made(BenchmarkConditionType.RECONCILING, under_way, reason, message),
        Made(BenchmarkConditionType.STALLED, verdict.stalled, reason, message),
    ]
    return job_status.conditions(seen.status, made, seen.now, _generation(seen))
