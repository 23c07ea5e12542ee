"""What the Jobs that fill claims say of themselves, asked beside the workers while they copy.

What is passed on changes with each percent, so that the status of a service is written a hundred times for a
copy, however large it is and however often its Job is asked.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import orjson

from daybreak.api.common import names
from daybreak.api.common.unstructured import at, mapping, mappings, text, whole
from daybreak.controller.pod_client import PodClient
from daybreak.controller.probes import Probes
from daybreak.kinds.llmservice.objects.cache_jobs import COMPONENT
from daybreak.kinds.llmservice.observe.observed import CopyReport, Observed
from daybreak.kube.cache import Key
from daybreak.ray.ports import FILL

PATH = "/-/fill"
"""Where a Job's program tells how far it is (daybreak.jobs.fill)."""
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
    if seen.service is None:
        return ()
    models = {
        names.worker_group(each.name): each for each in seen.service.spec.models if each.cache is not None
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
            directory = names.cached_weights(model.source, model.revision)
            found.append(Copying(model.name, address, directory))
    return tuple(found)


class Reporter(Protocol):
    """Who asks one Job. Tests without a cluster network pass their own."""

    async def report(self, asked: Copying) -> CopyReport | None:
        """How far it is; None when it says nothing."""
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...


class HttpReporter:
    """Asks over HTTP."""

    def __init__(self) -> None:
        self._client = PodClient()

    async def report(self, asked: Copying) -> CopyReport | None:
        """How far it is; None when it says nothing."""
        content = await self._client.get(asked.address, FILL, PATH, BODY_LIMIT)
        return None if content is None else read(content, asked.directory)

    async def close(self) -> None:
        """Close what is open."""
        await self._client.close()


def read(content: bytes, directory: str) -> CopyReport | None:
    """A Job's answer; None when it fills another directory, or when it has another form."""
    try:
        said = mapping(orjson.loads(content))
    except ValueError:
        return None
    if said.get("directory") != directory:
        return None
    copied, total = max(0, whole(said.get("copied"))), max(0, whole(said.get("bytes")))
    return CopyReport(min(copied, total), total) if total else CopyReport(0, None)


@dataclass
class _Asked:
    pods: tuple[Copying, ...]
    reports: dict[str, CopyReport]


class CopyProber:
    """Asks the Jobs of each service, and calls back with each percent."""

    def __init__(self, reporter: Reporter, on_change: Callable[[Key], None]) -> None:
        self._reporter = reporter
        self._on_change = on_change
        self._probes: Probes[_Asked] = Probes("copies")

    def copies(self, key: Key, asked: Sequence[Copying]) -> Mapping[str, CopyReport]:
        """What these have said so far, by model."""
        current = self._probes.state(key)
        if not asked:
            self.forget(key)
            return {}
        if current is None or current.pods != tuple(asked):
            before = current.reports if current is not None else {}
            same = {each.model for each in asked if current is not None and each in current.pods}
            current = _Asked(tuple(asked), {model: said for model, said in before.items() if model in same})
            self._probes.start(key, current, self._ask(key, current))
        return dict(current.reports)

    def forget(self, key: Key) -> None:
        """Stop asking about a service."""
        self._probes.stop(key)

    async def close(self) -> None:
        """Stop asking."""
        await self._probes.close()
        await self._reporter.close()

    async def _ask(self, key: Key, asked: _Asked) -> None:
        while True:
            answers = await asyncio.gather(*(self._reporter.report(each) for each in asked.pods))
            said = {
                each.model: answer
                for each, answer in zip(asked.pods, answers, strict=True)
                if answer is not None and _further(asked.reports.get(each.model), answer)
            }
            if said:
                asked.reports.update(said)
                self._on_change(key)
            await asyncio.sleep(PAUSE_SECONDS)


def _further(before: CopyReport | None, now: CopyReport) -> bool:
    """Whether it is worth telling."""
    return before is None or (before.percent, before.total) != (now.percent, now.total)
