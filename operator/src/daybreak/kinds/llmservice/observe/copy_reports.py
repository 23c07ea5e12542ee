"""Reports of the Jobs that fill PVCs, requested in the background while they copy.

Only each percent of progress is a change. Therefore a copy causes a hundred status writes of its service,
regardless of its size and of how often its Job is queried.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from daybreak.api.common import names, volume_names
from daybreak.api.common.unstructured import at, mapping, mappings, text, whole
from daybreak.controller.asking.pod_reports import HttpReporter, PodProber, Reporter
from daybreak.kinds.llmservice.objects.cache_jobs import COMPONENT
from daybreak.kinds.llmservice.observe.observed import CopyReport, Observed
from daybreak.manifests.keys import Key
from daybreak.ray.ports import FILL

PATH = "/-/fill"
"""Path of the progress report of a Job's program (daybreak.pod_programs.fill)."""
PAUSE_SECONDS = 10.0
BODY_LIMIT = 4096


@dataclass(frozen=True)
class Copying:
    """Pod of a Job to query."""

    model: str
    address: str
    """IP of the pod."""
    directory: str
    """Directory that the Job fills. A report on another directory is ignored."""


def copying(observed: Observed) -> tuple[Copying, ...]:
    """Return the pods to query: those that currently copy weights for the service's models."""
    if observed.subject is None:
        return ()
    models = {
        names.worker_group(each.name): each for each in observed.subject.spec.models if each.cache is not None
    }
    found = []
    for pod in observed.pods:
        labels, status = at(pod, "metadata", "labels"), at(pod, "status")
        model = models.get(text(labels.get(names.MODEL_LABEL)))
        fills = labels.get(names.COMPONENT_LABEL) == COMPONENT
        runs = any(
            mapping(each.get("state")).get("running") is not None
            for each in mappings(status.get("containerStatuses"))
        )
        address = text(status.get("podIP"))
        if model is not None and fills and runs and address:
            directory = volume_names.cached_weights(model.source, model.revision)
            found.append(Copying(model.name, address, directory))
    return tuple(found)


def read(content: bytes, directory: str) -> CopyReport | None:
    """Return the report in a Job's answer, or None if the Job fills another directory.

    Raises:
        ValueError: The answer is not JSON.
    """
    report = mapping(orjson.loads(content))
    if report.get("directory") != directory:
        return None
    copied, total = max(0, whole(report.get("copied"))), max(0, whole(report.get("bytes")))
    return CopyReport(min(copied, total), total) if total else CopyReport(0, None)


def http_reporter() -> HttpReporter[Copying, CopyReport]:
    """Return the reporter that queries Jobs over HTTP."""
    return HttpReporter(
        FILL, lambda _: PATH, lambda content, requested: read(content, requested.directory), BODY_LIMIT
    )


class CopyProber:
    """Prober of the Jobs of each service that reports each percent of progress."""

    def __init__(self, reporter: Reporter[Copying, CopyReport], on_change: Callable[[Key], None]) -> None:
        # A pod that replaces another one restarts the copy, so the previous pod's report is no longer valid.
        self._prober: PodProber[Copying, Copying, CopyReport] = PodProber(
            "copies",
            reporter,
            on_change,
            name=lambda requested: requested,
            pauses=(PAUSE_SECONDS, PAUSE_SECONDS),
            news=_further,
        )

    def copies(self, key: Key, requested: Sequence[Copying]) -> Mapping[str, CopyReport]:
        """Return the latest reports of the given pods, by model."""
        return {each.model: message for each, message in self._prober.reports(key, requested).items()}

    def forget(self, key: Key) -> None:
        """Stop the queries for a service."""
        self._prober.forget(key)

    async def close(self) -> None:
        """Stop all queries."""
        await self._prober.close()


def _further(before: CopyReport | None, now: CopyReport) -> bool:
    """Return True if the change is worth a report."""
    return before is None or (before.percent, before.total) != (now.percent, now.total)
