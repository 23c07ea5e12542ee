"""Accelerator claims of a batch, and their release."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.llmbatch.status import BatchPhase, BatchReason, LLMBatchStatus
from daybreak.controller import metrics
from daybreak.kinds.llmbatch.decide.decision import decide
from daybreak.kinds.llmbatch.job_kind import BatchKind
from daybreak.kinds.llmbatch.observe.claims import claims
from daybreak.kinds.llmbatch.observe.observed import Observed, Progress
from daybreak.kinds.llmbatch.status.report import events, report
from daybreak.manifests.keys import Key
from daybreak.scheduling.claim import Claim, Turn
from tests import installed
from tests.unit.llmbatch.batches import NOW, manifest, observe

GPU_MODEL = {"name": "big", "source": "hf://o/big"}
RUNNING = Progress("Running", final=False, total=100, done=40)


def pod(*, placed: bool) -> dict[str, Any]:
    """Return a worker pod with one GPU."""
    message = {"type": "PodScheduled", "status": str(placed), "lastTransitionTime": "2026-01-02T03:04:00Z"}
    return {
        "metadata": {
            "name": "w",
            "labels": {
                names.RAY_NODE_TYPE_LABEL: "worker",
                names.RAY_GROUP_LABEL: names.worker_group("big"),
                names.RAY_CLUSTER_LABEL: "c",
            },
        },
        "spec": {
            **({"nodeName": "n"} if placed else {}),
            "containers": [{"name": "ray-worker", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
        },
        "status": {
            "phase": "Running" if placed else "Pending",
            "conditions": [message if placed else message | {"reason": "Unschedulable"}],
        },
    }


def job(seconds: float = 300) -> dict[str, Any]:
    """Return a RayJob that was created the given number of seconds ago."""
    made = (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    return {"metadata": {"creationTimestamp": made}, "spec": {}, "status": {}}


def claim(status: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **more: Any) -> Claim:
    """Return the only claim of a batch."""
    [found] = claims(observe(manifest(status=status, **{"model": GPU_MODEL} | (spec or {})), **more), None)
    return found


def test_running_batch_holds_accelerators_and_yields_after_minimum_run() -> None:
    found = claim(job=job(300), pods=(pod(placed=True),), progress=RUNNING)
    assert (found.owner, found.holds, found.waits) == ("team/batch.night", {"n": 1}, False)
    assert found.background
    assert found.yields_at == NOW - timedelta(seconds=240)


def test_batch_with_unscheduled_pod_waits() -> None:
    found = claim(job=job(), pods=(pod(placed=False),))
    assert found.waits
    assert found.stuck(NOW)


@pytest.mark.parametrize("spec", [{"preemptible": False}, {"resume": False}])
def test_batch_without_preemption_or_resume_does_not_yield(spec: dict[str, Any]) -> None:
    assert claim(spec=spec, job=job(), pods=(pod(placed=True),), progress=RUNNING).yields_at is None


def test_batch_that_has_yielded_is_queued() -> None:
    found = claim({"queuedBehind": ["team/chat"]}, pods=(pod(placed=True),))
    assert (found.queued, found.leaving, found.stuck(NOW)) == (True, True, True)


def test_batch_without_accelerators_holds_cpu_cores() -> None:
    worker = pod(placed=True)
    worker["spec"]["containers"] = [{"name": "ray-worker", "resources": {"requests": {"cpu": "2"}}}]
    worker["metadata"]["labels"][names.RAY_GROUP_LABEL] = names.worker_group("tiny")
    [found] = claims(observe(manifest(), job=job(300), pods=(worker,), progress=RUNNING), None)
    assert (found.resource, found.devices, found.holds, found.held) == ("cpu", 0, {"n": 1}, 0)
    assert found.gives == {"n": {"cpu": 2}}
    assert found.yields_at == NOW - timedelta(seconds=240)


@pytest.mark.parametrize(
    "whole",
    [
        manifest(model=GPU_MODEL, suspend=True),
        manifest(model=GPU_MODEL, labels={"kueue.x-k8s.io/queue-name": "q"}),
        manifest(model=None, serviceRef={"name": "chat"}),
    ],
)
def test_suspended_kueue_or_service_batch_has_no_claim(whole: Any) -> None:
    assert claims(observe(whole), None) == ()


def turned(status: dict[str, Any] | None = None, turn: Turn | None = None) -> Observed:
    """Return a running batch at this position in the accelerator queue; first by default."""
    return observe(manifest(status=status, model=GPU_MODEL), job=job(), progress=RUNNING, turn=turn or Turn())


def test_yielding_batch_has_no_job_and_continues_later() -> None:
    what = turned(turn=Turn(gives_way_to="team/chat"))
    decision = decide(what)
    status = report(what, decision)
    assert (decision.apply, decision.running, status.queued_behind) == (True, False, ["team/chat"])
    assert status.phase is BatchPhase.PENDING
    [reported] = events(LLMBatchStatus(), status)
    assert reported.reason == BatchReason.WAITING_FOR_ACCELERATORS
    kept = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    # An unchanged position emits no event, and the batch runs when no workload is ahead of it.
    again = turned(kept, Turn(after=("team/chat",)))
    assert events(LLMBatchStatus.model_validate(kept), report(again, decide(again))) == []
    free = turned(kept)
    assert decide(free).running
    assert report(free, decide(free)).queued_behind is None


def test_yield_is_counted_once_with_workload_it_yields_to() -> None:
    def counted() -> float:
        return float(metrics.YIELDS.labels("team", "night", "team/chat")._value.get())

    kind, key, before = BatchKind(installed.platform()), Key("team", "night"), counted()
    what = turned(turn=Turn(gives_way_to="team/chat"))
    status = report(what, decide(what))
    kind.written(key, what, status)
    assert counted() == before + 1
    kept = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    again = turned(kept, Turn(after=("team/chat",)))
    kind.written(key, again, report(again, decide(again)))
    waits = replace(turned(turn=Turn(after=("team/chat",))), job=None)
    kind.written(key, waits, report(waits, decide(waits)))
    runs = turned()
    kind.written(key, runs, report(runs, decide(runs)))
    assert counted() == before + 1, "it had no accelerators, or had released them before"
