"""Reports of replicas on their LoRA adapters, requested in the background until they are final."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import orjson

from daybreak.api.common import names
from daybreak.api.common.unstructured import at, mapping, text
from daybreak.controller.asking.pod_reports import HttpReporter, PodProber, Reporter
from daybreak.kinds.llmservice.observe.observed import AdapterReport, Observed
from daybreak.manifests.keys import Key
from daybreak.ray.ports import DIRECT
from daybreak.ray.serve.adapter_origin import identity
from daybreak.ray.views.ray_pods import pod_views

PATH = "/-/lora"
"""Path of a replica's report on its adapters (`daybreak_runtime.lora`)."""
PAUSE_SECONDS = (1.0, 30.0)
"""Minimum and maximum pause in seconds before a replica with unfinished adapters is queried again."""
BODY_LIMIT = 256 * 1024
REASON_LIMIT = 1000
_FINAL = ("Loaded", "Rejected")


@dataclass(frozen=True)
class Replica:
    """Replica to query."""

    pod: str
    """Name of the replica's pod."""
    address: str
    """IP of the pod."""
    adapters: frozenset[tuple[str, str]]
    """Names and digests of the adapters that the replica must have."""

    def settled(self, message: Mapping[str, AdapterReport] | None) -> bool:
        """Return True if the report is final."""
        done = {(name, report.id) for name, report in (message or {}).items() if report.state in _FINAL}
        return message is not None and self.adapters == done and len(message) == len(done)


AdapterProber = PodProber[str, Replica, Mapping[str, AdapterReport]]
"""Prober of replicas, by the names of their pods."""


def replicas(observed: Observed, cluster: str | None) -> tuple[Replica, ...]:
    """Return the replicas to query: the ready worker pods of models that accept adapters."""
    if observed.subject is None or not cluster:
        return ()
    desired = {
        names.worker_group(model.name): frozenset((each.name, identity(each)) for each in model.lora.adapters)
        for model in observed.subject.spec.models
        if model.lora is not None
    }
    if not desired:
        return ()
    return tuple(
        Replica(pod.name, address, desired[pod.group])
        for pod in pod_views(observed.pods)
        if pod.group in desired and pod.cluster == cluster and pod.ready and pod.counts
        if (address := text(at(pod.manifest, "status").get("podIP")))
    )


def read(content: bytes) -> Mapping[str, AdapterReport]:
    """Return the reports in a replica's answer. Malformed values are ignored."""
    report = mapping(mapping(orjson.loads(content)).get("adapters"))
    return {
        name: AdapterReport(
            id=text(mapping(each).get("id"))[:64],
            state=text(mapping(each).get("state"))[:32],
            reason=" ".join(text(mapping(each).get("reason")).split())[:REASON_LIMIT],
        )
        for name, each in list(report.items())[:256]
    }


def http_reporter() -> HttpReporter[Replica, Mapping[str, AdapterReport]]:
    """Return the reporter that queries replicas over HTTP."""
    return HttpReporter(DIRECT, lambda _: PATH, lambda content, _: read(content), BODY_LIMIT)


def adapter_prober(
    reporter: Reporter[Replica, Mapping[str, AdapterReport]], on_change: Callable[[Key], None]
) -> AdapterProber:
    """Return the prober that queries the replicas of each service until their reports are final."""
    return PodProber(
        "adapters",
        reporter,
        on_change,
        name=lambda replica: replica.pod,
        pauses=PAUSE_SECONDS,
        settled=Replica.settled,
    )
