"""Parts of LLMBatch that differ between kinds with one job: its turn, its RayJob, Kueue and KubeRay."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at
from daybreak.api.llmbatch.definition import LLM_BATCHES
from daybreak.api.llmbatch.status import LLMBatchStatus
from daybreak.api.schema.custom_object import known_status
from daybreak.api.schema.resource import Resource
from daybreak.controller import metrics
from daybreak.controller.again import Again
from daybreak.kinds.llmbatch.decide.decision import Decision, decide
from daybreak.kinds.llmbatch.objects.desired import desired
from daybreak.kinds.llmbatch.observe.observed import Observed
from daybreak.kinds.llmbatch.status.report import events, report
from daybreak.manifests.keys import Key
from daybreak.manifests.owner import NameHolder
from daybreak.manifests.resources import OF_BATCHES, RAY_JOBS, of
from daybreak.platform import Platform
from daybreak.problems.events import Event
from daybreak.ray.views.ray_pods import HEAD


class BatchKind:
    """LLMBatch for the reconciler of kinds with one job (`controller/jobs/reconciler.py`).

    Args:
        platform: Settings of the installation.
    """

    resource = LLM_BATCHES
    owned: Collection[Resource] = OF_BATCHES
    job = RAY_JOBS
    role: str | None = HEAD
    decide = staticmethod(decide)
    report = staticmethod(report)

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def desired(self, observed: Observed, decision: Decision) -> Sequence[dict[str, Any]]:
        """Return the objects of the batch."""
        batch = observed.subject
        return [] if batch is None else desired(batch, self._platform, running=decision.running)

    def keeps(self, observed: Observed, decision: Decision) -> None:
        """Keep nothing: the job writes its output to `spec.output`."""

    def known(self, observed: Observed) -> Collection[Resource]:
        """Return the owned resources that the API server knows: without KubeRay there are no RayJobs."""
        return [each for each in OF_BATCHES if each is not RAY_JOBS or observed.kuberay_installed]

    def stays(self, desired: Manifest, live: Manifest, whose: NameHolder) -> bool:
        """Return True for a running RayJob of another operator version: it stays unchanged to its end."""
        if of(desired) is not RAY_JOBS or whose is not NameHolder.OURS:
            return False
        there, own = (
            at(each, "metadata", "annotations").get(names.RAY_CLUSTER_ANNOTATION) for each in (live, desired)
        )
        return there is not None and there != own

    def news(self, before: Mapping[str, Any], after: LLMBatchStatus) -> Sequence[Event]:
        """Return the events for the changes of the status."""
        return events(known_status(LLMBatchStatus, before), after)

    def written(self, key: Key, observed: Observed, after: LLMBatchStatus) -> None:
        """Count a yield if the batch has just released its accelerators for another workload."""
        if after.queued_behind and not observed.after and observed.job is not None:
            metrics.YIELDS.labels(key.namespace, key.name, after.queued_behind[0]).inc()

    def look_again(self, observed: Observed, decision: Decision, again: Again) -> None:
        """Requeue for the time at which the batch's turn may change without any event."""
        again.within(observed.turn.look_again)
