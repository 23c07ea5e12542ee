"""Decisions on an observed benchmark, and the status that reports them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from daybreak.api.llmbenchmark import validation
from daybreak.api.llmbenchmark.status import LLMBenchmarkStatus
from daybreak.controller.jobs.reports import running_job
from daybreak.jobs.observed import Referred
from daybreak.kinds.llmbenchmark.decide.decision import decide
from daybreak.kinds.llmbenchmark.objects.job import job_digest
from daybreak.kinds.llmbenchmark.observe.observed import Observed, Progress
from daybreak.kinds.llmbenchmark.observe.observer import read as read_manifest
from daybreak.kinds.llmbenchmark.observe.progress_reports import read
from daybreak.kinds.llmbenchmark.status.report import events, report
from tests.unit.llmbenchmark.benchmarks import benchmark, manifest, of_service, service

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STEP = {
    "settings": {"max_num_seqs": 4},
    "clients": 8,
    "requests_per_second": 9.5,
    "tokens_per_second": 300.0,
    "requests": 190,
    "errors": 1,
    "ttft_ms": {"p50": 1.0, "p95": 2.0, "p99": 3.0},
    "tpot_ms": {"p50": 1.0, "p95": 2.0, "p99": 3.0},
    "latency_ms": {"p50": 1.0, "p95": 2.0, "p99": 3.0},
    "windows": [9.4, 9.6],
    "engine": {
        "kv_cache": 0.25,
        "running": 4.0,
        "waiting": 4.0,
        "preemptions": 0,
        "ttft_ms": 31.5,
        "tpot_ms": 0.0,
    },
}
LAST = Progress(
    state="Succeeded",
    final=True,
    stopped="max_num_seqs: 8 is worse than 4, beyond noise",
    engine_starts=4,
    noise=0.01,
    steps=(STEP,),
    best=STEP,
    baseline=STEP | {"settings": {}},
    gain={"ratio": 2.7, "noise": 0.05, "significant": True},
)


def observe(status: dict[str, Any] | None = None, of: dict[str, Any] | None = None, **more: Any) -> Observed:
    whole = manifest(**(of or {})) | ({"status": status} if status else {})
    found, problems = read_manifest(whole)
    return replace(Observed(whole, found, problems, NOW), **more)


def job(**status: Any) -> dict[str, Any]:
    annotations = {"daybreak.dev/benchmark-hash": job_digest(benchmark())}
    return {"metadata": {"name": "tune-benchmark", "annotations": annotations}, "status": status}


def ended(kind: str, reason: str = "", message: str = "") -> dict[str, Any]:
    reply = {"type": kind, "status": "True", "reason": reason, "message": message}
    return job(conditions=[reply])


def pod(ready: bool = True, **status: Any) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    message = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [condition], **status}
    resources = {"requests": {"nvidia.com/gpu": "2"}}
    spec = {"nodeName": "n", "containers": [{"name": "ray-worker", "resources": resources}]}
    return {"metadata": {"name": "p"}, "spec": spec, "status": message}


NO_GPU = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
NO_CLAIM = 'persistentvolumeclaim "weights" not found'


def unplaced(message: str) -> dict[str, Any]:
    """Return a pod without a node, with the scheduler's message."""
    reply = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    found = pod(phase="Pending", conditions=[reply])
    del found["spec"]["nodeName"]
    return found


NONE = Referred("LLMService", "chat", None, ("chart",))


def verdict(at: Observed) -> tuple[str, str, bool]:
    found = decide(at).verdict
    assert found is not None
    return found.phase.value, found.reason.value, found.stalled


RUNNING = Progress(state="Running", final=False, now="max_num_seqs 4: 8 clients", steps=(STEP,), best=STEP)
CASES: list[tuple[str, Observed, tuple[str, str, bool]]] = [
    ("new", observe(), ("Pending", "Progressing", False)),
    ("its pod starts", observe(job=job()), ("Starting", "Progressing", False)),
    ("it measures", observe(job=job(), progress=RUNNING), ("Running", "Running", False)),
    ("its last word", observe(job=job(), progress=LAST), ("Succeeded", "Finished", False)),
    (
        "no engine",
        observe(job=job(), progress=Progress("Failed", True, reason="EngineFailed", message="OOM")),
        ("Failed", "EngineFailed", True),
    ),
    (
        "a reason that is not known",
        observe(job=job(), progress=Progress("Failed", True, reason="Odd", message="x")),
        ("Failed", "JobFailed", True),
    ),
    ("ended unheard", observe(job=ended("Complete")), ("Succeeded", "Finished", False)),
    ("failed", observe(job=ended("Failed", "BackoffLimitExceeded", "x")), ("Failed", "JobFailed", True)),
    ("suspended", observe(of={"suspend": True}), ("Suspended", "Suspended", False)),
    ("invalid", observe(of={"load": {}}), ("Pending", "InvalidSpec", True)),
    (
        "unknown argument",
        observe(of={"sweep": [{"argument": "max_num_seq", "values": [1]}]}),
        ("Pending", "InvalidSpec", True),
    ),
    ("no service", observe(of=of_service(), referred=NONE), ("Pending", "ServiceNotFound", True)),
    ("a service that cannot be read", observe(of=of_service()), ("Pending", "ServiceNotFound", True)),
    ("foreign", observe(foreign=("Job/tune-benchmark",)), ("Pending", "NameConflict", True)),
    ("refused", observe(refusal="Job: quota"), ("Pending", "ObjectRejected", True)),
    (
        "changed",
        observe(status={"jobHash": "other"}, job=job(), progress=RUNNING),
        ("Running", "SpecChanged", True),
    ),
    (
        "no image",
        observe(
            job=job(),
            pods=(
                pod(
                    ready=False,
                    phase="Pending",
                    containerStatuses=[
                        {"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}, "image": "i"}
                    ],
                ),
            ),
        ),
        ("Starting", "PodFailed", True),
    ),
    ("a wait for a GPU", observe(job=job(), pods=(unplaced(NO_GPU),)), ("Starting", "Progressing", False)),
    ("a missing claim", observe(job=job(), pods=(unplaced(NO_CLAIM),)), ("Starting", "PodFailed", True)),
]


@pytest.mark.parametrize(("at", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_verdict_matches_observed_state(at: Observed, expected: tuple[str, str, bool]) -> None:
    assert verdict(at) == expected


def test_finished_benchmark_is_unchanged() -> None:
    at = observe(status={"completionTime": "2026-01-01T00:00:00Z", "phase": "Succeeded"})
    decision = decide(at)
    assert (decision.apply, decision.verdict) == (False, None)
    assert report(at, decision).phase == "Succeeded"


def test_missing_service_is_reported_with_existing_services() -> None:
    found = decide(observe(of=of_service(), referred=NONE)).verdict
    assert found is not None
    assert (
        found.message == "there is no LLMService chat in this namespace; did you mean chart? available: chart"
    )


def test_running_copy_continues_if_service_is_missing() -> None:
    of = of_service()
    begun = job_digest(benchmark(**of))
    at = observe(status={"jobHash": begun}, of=of, job=job(), progress=RUNNING)
    assert verdict(at) == ("Running", "Running", False)
    assert not decide(at).apply
    assert decide(observe(of=of, service=service())).target is not None


def test_status_has_every_step_and_best_settings_and_gain() -> None:
    at = observe(job=job(), progress=LAST)
    found = report(at, decide(at))
    assert found.recommended == {"max_num_seqs": 4}
    assert found.recommendation == "max_num_seqs=4"
    [step] = found.steps
    assert (step.requests_per_second, step.requests, step.errors, step.kv_cache) == (9.5, 190, 1, 0.25)
    assert step.ttft is not None
    assert step.ttft.p99 == 3.0
    assert (step.engine_ttft, step.engine_tpot) == (31.5, None)
    assert found.gain is not None
    assert (found.gain.ratio, found.gain.significant) == (2.7, True)
    assert found.stop_reason == LAST.stopped
    assert found.completion_time
    conditions = {each.type: each.status for each in found.conditions}
    assert conditions == {"Complete": "True", "Failed": "False", "Reconciling": "False", "Stalled": "False"}
    assert [each.reason for each in events(LLMBenchmarkStatus(), found)] == ["Succeeded"]


def test_reported_steps_are_kept_if_job_sends_no_report() -> None:
    at = observe(job=job(), progress=RUNNING)
    before = report(at, decide(at)).model_dump(mode="json", by_alias=True, exclude_none=True)
    later = report(unheard := observe(status=before, job=ended("Failed", "x", "y")), decide(unheard))
    assert len(later.steps) == 1
    assert later.phase == "Failed"


def test_accelerator_seconds_grow_while_pod_runs() -> None:
    of = {"model": {"name": "a", "source": "hf://a/b"}}
    at = observe(of=of, job=job(), pods=(pod(),))
    before = report(at, decide(at))
    assert before.accelerators == 2
    plain = before.model_dump(mode="json", by_alias=True, exclude_none=True)
    at = observe(status=plain, of=of, job=job(), pods=(pod(),), now=NOW + timedelta(seconds=30))
    assert report(at, decide(at)).accelerator_seconds == 60.0


def test_malformed_job_report_is_read_without_error() -> None:
    assert read(b'{"uid": "other"}', "u-1") is None
    odd = {"uid": "u-1", "state": 7, "steps": [1, {"settings": {}}], "noise": "x", "best": [], "final": 1}
    found = read(orjson.dumps(odd), "u-1")
    assert found is not None
    assert (found.state, found.final, found.noise, found.best, found.steps) == (
        "",
        False,
        None,
        None,
        ({"settings": {}},),
    )
    at = observe(
        job=job(), progress=replace(RUNNING, steps=({"settings": 3}, {"requests": "many"}), best=None)
    )
    assert all(step.failure for step in report(at, decide(at)).steps)


def test_running_job_has_address_of_ready_pod() -> None:
    assert running_job("u", [pod(ready=False)], received=False) is None
    found = running_job("u", [pod()], received=True)
    assert found is not None
    assert (found.address, found.received) == ("10.0.0.1", True)


def test_sample_benchmark_spec_is_valid() -> None:
    assert validation.problems(benchmark()) == ()


QUOTA = 'pods "tune-" is forbidden: failed quota: team: must specify limits.cpu for: ray-worker'
LOAD = {"model": None, "sweep": None, "serviceRef": {"name": "chat", "mode": "Service"}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "container ray in spec.model.podTemplate"),
        (
            {"model": None, "serviceRef": {"name": "chat"}},
            "container ray in spec.models[].podTemplate of LLMService chat",
        ),
        (LOAD, "container ray in spec.runtime.head.podTemplate"),
    ],
)
def test_rejected_pod_is_quoted_with_the_field(spec: dict[str, Any], field: str) -> None:
    whole = manifest(**spec)
    made = job()
    made["metadata"]["annotations"]["daybreak.dev/benchmark-hash"] = job_digest(benchmark(**spec))
    read_object, problems = read_manifest(whole)
    assert not problems
    one = Observed(whole, read_object, (), NOW, job=made, rejection=QUOTA, service=service())
    verdict = decide(one).verdict
    assert verdict is not None
    assert (verdict.reason, verdict.stalled) == ("PodFailed", True)
    assert QUOTA in verdict.message
    assert verdict.message.endswith(field)
