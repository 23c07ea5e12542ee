"""Parts of LLMBenchmark that differ between kinds with one job: its measurement target and its Job."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from daybreak.api.common.unstructured import Manifest
from daybreak.api.llmbenchmark.definition import LLM_BENCHMARKS
from daybreak.api.llmbenchmark.status import LLMBenchmarkStatus
from daybreak.api.schema.custom_object import known_status
from daybreak.api.schema.resource import Resource
from daybreak.controller.again import SOON_SECONDS, Again
from daybreak.kinds.llmbenchmark.decide.decision import Decision, decide
from daybreak.kinds.llmbenchmark.objects.desired import desired
from daybreak.kinds.llmbenchmark.objects.report_map import fitting, report_map
from daybreak.kinds.llmbenchmark.observe.observed import Observed
from daybreak.kinds.llmbenchmark.status.report import events, report
from daybreak.manifests.keys import Key
from daybreak.manifests.owner import NameHolder
from daybreak.manifests.resources import JOBS, OF_BENCHMARKS, of
from daybreak.platform import Platform
from daybreak.problems.events import Event


class BenchmarkKind:
    """LLMBenchmark for the reconciler of kinds with one job (`controller/jobs/reconciler.py`).

    Args:
        platform: Settings of the installation.
    """

    resource = LLM_BENCHMARKS
    owned: Collection[Resource] = OF_BENCHMARKS
    job = JOBS
    role: str | None = None
    decide = staticmethod(decide)
    report = staticmethod(report)

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def desired(self, observed: Observed, decision: Decision) -> Sequence[dict[str, Any]]:
        """Return the objects of the benchmark."""
        benchmark = observed.subject
        return [] if benchmark is None else desired(benchmark, decision.target, self._platform)

    def keeps(self, observed: Observed, decision: Decision) -> dict[str, Any] | None:
        """Return the ConfigMap with the job's final report, or None if there is none to keep."""
        benchmark, reply = observed.subject, observed.progress
        if benchmark is None or reply is None or not reply.final or observed.finished or observed.deleting:
            return None
        files = fitting(reply.files or {})
        return report_map(benchmark, files) if files else None

    def known(self, observed: Observed) -> Collection[Resource]:
        """Return all owned resources: they are built into Kubernetes."""
        return OF_BENCHMARKS

    def stays(self, desired: Manifest, live: Manifest, whose: NameHolder) -> bool:
        """Return True for a Job: its pod template is immutable, and a running Job stays to its end."""
        return of(desired) is JOBS

    def news(self, before: Mapping[str, Any], after: LLMBenchmarkStatus) -> Sequence[Event]:
        """Return the events for the changes of the status."""
        return events(known_status(LLMBenchmarkStatus, before), after)

    def written(self, key: Key, observed: Observed, after: LLMBenchmarkStatus) -> None:
        """Count nothing."""

    def look_again(self, observed: Observed, decision: Decision, again: Again) -> None:
        """Requeue for the next run, and for the time at which a run that waits for its service is skipped."""
        turn = decision.turn
        if turn is not None and turn.begins:
            again.at_once()
        elif turn is not None and turn.clears:
            again.after(SOON_SECONDS)
        elif turn is not None and turn.next is not None:
            again.within(turn.next - observed.now)
        if turn is not None and turn.left_out is not None:
            again.within(turn.left_out - observed.now)
