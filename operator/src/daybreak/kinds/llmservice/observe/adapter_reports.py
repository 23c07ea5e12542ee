"""What replicas say of their LoRA adapters, asked beside the workers until it is final."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import orjson

from daybreak.api.common import names
from daybreak.api.common.unstructured import at, mapping, text
from daybreak.controller.pod_client import PodClient
from daybreak.controller.probes import Probes
from daybreak.kinds.llmservice.observe.observed import AdapterReport, Observed, Reports
from daybreak.kube.cache import Key
from daybreak.ray.ports import DIRECT
from daybreak.ray.serve.adapter_origin import identity
from daybreak.ray.views.ray_pods import pod_views

PATH = "/-/lora"
"""Where a replica tells how its adapters are (daybreak_runtime.lora)."""
PAUSE_SECONDS = (1.0, 30.0)
"""First and longest pause before a replica is asked again that is not done with its adapters."""
BODY_LIMIT = 256 * 1024
REASON_LIMIT = 1000
_FINAL = ("Loaded", "Refused")


@dataclass(frozen=True)
class Replica:
    """A replica to be asked."""

    pod: str
    """Name of its pod."""
    address: str
    """IP of the pod."""
    adapters: frozenset[tuple[str, str]]
    """Names and digests of the adapters that it should have."""

    def settled(self, said: Mapping[str, AdapterReport] | None) -> bool:
        """Whether what it said is its last word."""
        done = {(name, report.id) for name, report in (said or {}).items() if report.state in _FINAL}
        return said is not None and self.adapters == done and len(said) == len(done)


def replicas(seen: Observed, cluster: str | None) -> tuple[Replica, ...]:
    """Who is to be asked about a service: the ready worker pods of models that take adapters."""
    if seen.service is None or not cluster:
        return ()
    wanted = {
        names.worker_group(model.name): frozenset((each.name, identity(each)) for each in model.lora.adapters)
        for model in seen.service.spec.models
        if model.lora is not None
    }
    if not wanted:
        return ()
    return tuple(
        Replica(pod.name, address, wanted[pod.group])
        for pod in pod_views(seen.pods)
        if pod.group in wanted and pod.cluster == cluster and pod.ready and pod.counts
        if (address := text(at(pod.manifest, "status").get("podIP")))
    )


class Reporter(Protocol):
    """Who asks one replica. Tests without a cluster network pass their own."""

    async def report(self, address: str) -> Mapping[str, AdapterReport] | None:
        """What the replica at an IP says of its adapters; None when it says nothing."""
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...


class HttpReporter:
    """Asks over HTTP."""

    def __init__(self) -> None:
        self._client = PodClient()

    async def report(self, address: str) -> Mapping[str, AdapterReport] | None:
        """What the replica at an IP says of its adapters; None when it says nothing."""
        content = await self._client.get(address, DIRECT, PATH, BODY_LIMIT)
        try:
            return None if content is None else read(content)
        except ValueError:
            return None

    async def close(self) -> None:
        """Close what is open."""
        await self._client.close()


def read(content: bytes) -> Mapping[str, AdapterReport]:
    """A replica's answer; what is of another form reads as nothing."""
    said = mapping(mapping(orjson.loads(content)).get("adapters"))
    return {
        name: AdapterReport(
            id=text(mapping(each).get("id"))[:64],
            state=text(mapping(each).get("state"))[:32],
            reason=" ".join(text(mapping(each).get("reason")).split())[:REASON_LIMIT],
        )
        for name, each in list(said.items())[:256]
    }


@dataclass
class _Asked:
    replicas: tuple[Replica, ...]
    reports: dict[str, Mapping[str, AdapterReport]]


class AdapterProber:
    """Asks the replicas of each service, and calls back when something has changed."""

    def __init__(self, reporter: Reporter, on_change: Callable[[Key], None]) -> None:
        self._reporter = reporter
        self._on_change = on_change
        self._probes: Probes[_Asked] = Probes("adapters")

    def reports(self, key: Key, asked: Sequence[Replica]) -> Reports:
        """What these replicas have said so far."""
        current = self._probes.state(key)
        if not asked:
            self.forget(key)
            return {}
        if current is None or current.replicas != tuple(asked):
            there = {replica.pod for replica in asked}
            before = current.reports.items() if current is not None else ()
            current = _Asked(tuple(asked), {pod: said for pod, said in before if pod in there})
            self._probes.start(key, current, self._ask(key, current))
        return dict(current.reports)

    def forget(self, key: Key) -> None:
        """Stop asking about a service."""
        self._probes.stop(key)

    async def close(self) -> None:
        """Stop asking."""
        await self._probes.close()
        await self._reporter.close()

    async def _ask(self, key: Key, watched: _Asked) -> None:
        pause = PAUSE_SECONDS[0]
        while asked := [each for each in watched.replicas if not each.settled(watched.reports.get(each.pod))]:
            answers = await asyncio.gather(*(self._reporter.report(each.address) for each in asked))
            said = {
                each.pod: answer
                for each, answer in zip(asked, answers, strict=True)
                if answer is not None and answer != watched.reports.get(each.pod)
            }
            if said:
                watched.reports.update(said)
                pause = PAUSE_SECONDS[0]
                self._on_change(key)
            if all(each.settled(watched.reports.get(each.pod)) for each in watched.replicas):
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS[1])
