"""Status of a benchmark, built from the decision."""

from daybreak.api.common import names
from daybreak.api.common.unstructured import at, text
from daybreak.api.jobs.words import JobPhase
from daybreak.api.llmbenchmark.status import BenchmarkPhase, LLMBenchmarkStatus
from daybreak.api.schema.custom_object import known_status
from daybreak.jobs import status
from daybreak.kinds.llmbenchmark.decide.decision import Decision
from daybreak.kinds.llmbenchmark.decide.steps import gain_status, step_status, words
from daybreak.kinds.llmbenchmark.observe.observed import Observed, Progress
from daybreak.kinds.llmbenchmark.status.kept import kept
from daybreak.kinds.llmbenchmark.status.runs import remembered, scheduled
from daybreak.problems.events import Event
from daybreak.ray.views.ray_pods import accelerators, pod_views

ACTION = "Benchmark"
"""Action of every event of a benchmark."""


def report(observed: Observed, decision: Decision) -> LLMBenchmarkStatus:
    """Return the desired status of the benchmark."""
    before = known_status(LLMBenchmarkStatus, observed.status)
    update, verdict = status.update(observed, before, decision, _held(observed)), decision.verdict
    if verdict is not None:
        update["engine_hash"] = before.engine_hash or _measured_now(observed)
        update["phase"] = BenchmarkPhase(verdict.phase)
        update["progress"] = verdict.message[:256] if verdict.phase is JobPhase.RUNNING else None
        if observed.progress is not None:
            update |= _measured(observed.progress)
            update["report"] = kept(observed) if verdict.final and not observed.finished else before.report
    after = before.model_copy(update=update | scheduled(observed, decision.turn))
    if verdict is None or not verdict.final or observed.finished or after.last_schedule_time is None:
        return after
    return after.model_copy(update={"runs": remembered(before, after, verdict)})


def events(before: LLMBenchmarkStatus, after: LLMBenchmarkStatus) -> list[Event]:
    """Return an event if the phase changed, or if the reason for required action changed."""
    return status.events(ACTION, before, after)


def _measured(report: Progress) -> dict[str, object]:
    best = step_status(report.best) if report.best is not None else None
    return {
        "steps": [step_status(each) for each in report.steps],
        "best": best,
        "baseline": step_status(report.baseline) if report.baseline is not None else None,
        "gain": gain_status(report.gain),
        "noise": report.noise,
        "recommended": best.settings if best is not None else None,
        "recommendation": words(best.settings) if best is not None else None,
        "stop_reason": report.stopped or None,
        "engine_starts": report.engine_starts,
    }


def _measured_now(observed: Observed) -> str | None:
    return text(at(observed.job, "metadata", "annotations").get(names.MEASURED_ANNOTATION)) or None


def _held(observed: Observed) -> int:
    """Return the number of accelerators that the benchmark's pods use."""
    resources = set()
    if observed.subject is not None and observed.subject.spec.model is not None:
        resources.add(observed.subject.spec.model.accelerator.resource)
    if observed.service is not None:
        resources |= {model.accelerator.resource for model in observed.service.spec.models}
    return sum(
        accelerators(pod, resource) for pod in pod_views(observed.pods) for resource in sorted(resources)
    )
