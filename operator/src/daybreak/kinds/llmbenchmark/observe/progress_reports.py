"""What the job of a benchmark says of itself, and where it is asked."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from daybreak.api.common.unstructured import Manifest, at, mapping, mappings, text, whole
from daybreak.api.llmbenchmark.status import STEP_LIMIT
from daybreak.controller.job_reports import Job
from daybreak.kinds.llmbenchmark.observe.observed import Progress
from daybreak.ray.views.ray_pods import pod_views

PATH = "/-/benchmark"
"""Where a job tells how far it is (daybreak_runtime.benchmark)."""
REPORT_LIMIT = 512 * 1024
"""Longest answer, in bytes: that of STEP_LIMIT steps is a third of it."""
_MESSAGE_LIMIT = 2000


def running_job(uid: str, pods: Sequence[Manifest], *, heard: bool) -> Job | None:
    """The job whose pod runs; None when there is none."""
    for pod in pod_views(pods):
        address = text(at(pod.manifest, "status").get("podIP"))
        if pod.ready and pod.counts and address:
            return Job(uid, address, heard)
    return None


def read(content: bytes, uid: str) -> Progress | None:
    """A job's answer; None when it is another benchmark's. What is of another form reads as nothing."""
    said = mapping(orjson.loads(content))
    if said.get("uid") != uid:
        return None
    return Progress(
        state=text(said.get("state"))[:32],
        final=said.get("final") is True,
        now=text(said.get("now"))[:256],
        stopped=text(said.get("stopped"))[:500],
        engine_starts=max(0, whole(said.get("engineStarts"))),
        noise=_number(said.get("noise")),
        steps=tuple(mappings(said.get("steps")))[:STEP_LIMIT],
        best=_mapping(said.get("best")),
        baseline=_mapping(said.get("baseline")),
        gain=_mapping(said.get("gain")),
        reason=text(said.get("reason"))[:64],
        message=text(said.get("message"))[:_MESSAGE_LIMIT],
    )


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else None


def _mapping(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None
