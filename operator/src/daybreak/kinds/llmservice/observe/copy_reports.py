"""What the Jobs that fill claims say of themselves, asked beside the workers while they copy.

What is passed on changes with each percent, so that the status of a service is written a hundred times for a
copy, however large it is and however often its Job is asked.
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
"""Where a Job's program tells how far it is (daybreak.pod_programs.fill)."""
PAUSE_SECONDS = 10.0
BODY_LIMIT = 4096


@dataclass(frozen=True)
class Copying:
    """A Job's pod that is to be asked."""

    model: str
    address: str
    """IP of the pod."""
    directory: str
    """What it fills: what a pod says of another one is not taken."""


def copying(seen: Observed) -> tuple[Copying, ...]:
    """Who is to be asked about a service: the pods that copy weights for its models at this moment."""
    if seen.subject is None:
        return ()
    models = {
        names.worker_group(each.name): each for each in seen.subject.spec.models if each.cache is not None
    }
    found = []
    for pod in seen.pods:
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
    """A Job's answer; None when it fills another directory. Raises ValueError when it is no JSON."""
    said = mapping(orjson.loads(content))
    if said.get("directory") != directory:
        return None
    copied, total = max(0, whole(said.get("copied"))), max(0, whole(said.get("bytes")))
    return CopyReport(min(copied, total), total) if total else CopyReport(0, None)


def http_reporter() -> HttpReporter[Copying, CopyReport]:
    """The reporter that asks Jobs over HTTP."""
    return HttpReporter(
        FILL, lambda _: PATH, lambda content, asked: read(content, asked.directory), BODY_LIMIT
    )


class CopyProber:
    """Asks the Jobs of each service, and calls back with each percent."""

    def __init__(self, reporter: Reporter[Copying, CopyReport], on_change: Callable[[Key], None]) -> None:
        # A pod in the place of another one begins anew, so what that one has said counts no more.
        self._prober: PodProber[Copying, Copying, CopyReport] = PodProber(
            "copies",
            reporter,
            on_change,
            name=lambda asked: asked,
            pauses=(PAUSE_SECONDS, PAUSE_SECONDS),
            news=_further,
        )

    def copies(self, key: Key, asked: Sequence[Copying]) -> Mapping[str, CopyReport]:
        """What these have said so far, by model."""
        return {each.model: said for each, said in self._prober.reports(key, asked).items()}

    def forget(self, key: Key) -> None:
        """Stop asking about a service."""
        self._prober.forget(key)

    async def close(self) -> None:
        """Stop asking."""
        await self._prober.close()


def _further(before: CopyReport | None, now: CopyReport) -> bool:
    """Whether it is worth telling."""
    return before is None or (before.percent, before.total) != (now.percent, now.total)
