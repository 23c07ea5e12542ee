"""Decisions on a batch, and the status that reports them."""

import json
from datetime import timedelta
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.jobs.words import JobPhase
from daybreak.api.llmbatch.status import BatchPhase, BatchReason, LLMBatchStatus
from daybreak.controller.jobs.reports import running_job
from daybreak.kinds.llmbatch.decide.decision import Decision, decide
from daybreak.kinds.llmbatch.objects.ray_job import job_digest
from daybreak.kinds.llmbatch.observe.job_message import OWN_ERROR
from daybreak.kinds.llmbatch.observe.observed import Observed, Progress
from daybreak.kinds.llmbatch.observe.progress_reports import read
from daybreak.kinds.llmbatch.status.report import events, report
from daybreak.ray.views.ray_pods import HEAD
from daybreak_runtime.batch import __main__ as runtime
from tests.unit.llmbatch.batches import NOW, batch, manifest, observe

RUNNING = Progress("Running", final=False, total=100, done=40, failed=2, rows_per_second=6.0)
DONE = Progress("Succeeded", final=True, total=100, done=100, failed=2)
MISSING = Progress("Failed", final=True, reason="InputNotFound", message="pvc://rows/in.jsonl is not there")


def job(deployment: str = "Running", status: str = "RUNNING", **more: Any) -> dict[str, Any]:
    """Return a RayJob as KubeRay writes it."""
    return {
        "metadata": {"annotations": {names.BATCH_ANNOTATION: job_digest(batch())}},
        "spec": {},
        "status": {"jobDeploymentStatus": deployment, "jobStatus": status, **more},
    }


def read_message(what: Observed) -> tuple[Decision, LLMBatchStatus]:
    """Return the decision and the status."""
    decision = decide(what)
    return decision, report(what, decision)


def conditions(status: LLMBatchStatus) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status.conditions}


def test_new_batch_is_applied_and_pending() -> None:
    decision, status = read_message(observe(manifest()))
    assert (decision.apply, decision.running, status.phase) == (True, True, BatchPhase.PENDING)
    assert conditions(status)["Reconciling"] == ("True", "Progressing")


def test_running_batch_reports_progress_and_expected_end() -> None:
    _, status = read_message(observe(manifest(), job=job(), progress=RUNNING))
    assert (status.phase, status.progress) == (BatchPhase.RUNNING, "40/100")
    assert status.rows is not None
    assert (status.rows.total, status.rows.done, status.rows.failed) == (100, 40, 2)
    assert status.expected_completion_time == "2026-01-02T03:04:20Z"
    assert status.start_time == "2026-01-02T03:04:05Z"


def test_status_of_finished_batch_is_unchanged_afterwards() -> None:
    _, ended = read_message(observe(manifest(), job=job(), progress=DONE))
    assert (ended.phase, ended.completion_time) == (BatchPhase.SUCCEEDED, "2026-01-02T03:04:05Z")
    assert conditions(ended) == {
        "Complete": ("True", "Finished"),
        "Failed": ("False", "Finished"),
        "Reconciling": ("False", "Finished"),
        "Stalled": ("False", "Finished"),
    }
    kept = ended.model_dump(mode="json", by_alias=True, exclude_none=True)
    for later in (None, job("Failed", "FAILED")):
        decision, status = read_message(observe(manifest(status=kept, suspend=True), job=later))
        assert not decision.apply
        assert status == ended


def test_missing_input_fails_batch_with_its_reason() -> None:
    decision, status = read_message(observe(manifest(), job=job(), progress=MISSING))
    assert (decision.apply, status.phase) == (False, BatchPhase.FAILED)
    assert conditions(status)["Failed"] == ("True", "InputNotFound")
    assert conditions(status)["Stalled"] == ("True", "InputNotFound")


@pytest.mark.parametrize(
    ("found", "phase", "reason"),
    [
        (job("Complete", "SUCCEEDED"), JobPhase.SUCCEEDED, BatchReason.FINISHED),
        (job("Complete", "STOPPED"), JobPhase.FAILED, BatchReason.JOB_FAILED),
        (job("Failed", "FAILED", message="exit 1"), JobPhase.FAILED, BatchReason.JOB_FAILED),
        (job("Failed", "", reason="DeadlineExceeded"), JobPhase.FAILED, BatchReason.DEADLINE_EXCEEDED),
        (job("Retrying", "FAILED"), JobPhase.STARTING, BatchReason.PROGRESSING),
    ],
)
def test_job_state_reported_only_by_kuberay_sets_verdict(
    found: dict[str, Any], phase: JobPhase, reason: BatchReason
) -> None:
    decision, _ = read_message(observe(manifest(), job=found))
    assert decision.verdict is not None
    assert (decision.verdict.phase, decision.verdict.reason) == (phase, reason)


ALL_FAILED = Progress(
    "Succeeded", final=True, total=100, done=100, failed=100, errors=("HTTP 400: no field x",)
)


def test_batch_fails_if_every_row_failed() -> None:
    _, status = read_message(observe(manifest(), job=job(), progress=ALL_FAILED))
    assert status.phase is BatchPhase.FAILED
    assert conditions(status)["Complete"][0] == "False"
    assert conditions(status)["Failed"] == ("True", "TooManyErrors")
    message = {each.type: each.message for each in status.conditions}["Failed"]
    assert message == "All 100 rows failed; first error: HTTP 400: no field x"


@pytest.mark.parametrize("failed", [0, 99])
def test_batch_succeeds_if_at_least_one_row_is_answered(failed: int) -> None:
    done = Progress("Succeeded", final=True, total=100, done=100, failed=failed)
    assert read_message(observe(manifest(), job=job(), progress=done))[1].phase is BatchPhase.SUCCEEDED


def test_batch_without_rows_succeeds() -> None:
    done = Progress("Succeeded", final=True)
    assert read_message(observe(manifest(), job=job(), progress=done))[1].phase is BatchPhase.SUCCEEDED


@pytest.mark.parametrize("known", ["progress", "status"])
def test_end_reported_only_by_kuberay_fails_batch_if_every_row_failed(known: str) -> None:
    last = Progress("Running", final=False, total=100, done=100, failed=100)
    complete = job("Complete", "SUCCEEDED")
    if known == "progress":
        found = read_message(observe(manifest(), job=complete, progress=last))[1]
    else:
        _, before = read_message(observe(manifest(), job=job(), progress=last))
        kept = before.model_dump(mode="json", by_alias=True, exclude_none=True)
        found = read_message(observe(manifest(status=kept), job=complete))[1]
    assert (found.phase, conditions(found)["Failed"][1]) == (BatchPhase.FAILED, "TooManyErrors")


NOISE = (
    "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"
    + "(JsonEngine pid=4711) ERROR the engine has stopped, and prints its call stack\n" * 40
)


def failed_with(message: str) -> tuple[str, str]:
    """Return the reason and the message of a batch after its job failed with a message."""
    _, status = read_message(observe(manifest(), job=job("Failed", "FAILED", message=message)))
    found = {each.type: each for each in status.conditions}["Failed"]
    return found.reason, found.message


def own_error(reason: str, message: str) -> str:
    """Return the line with which daybreak_runtime.batch ends its log."""
    return OWN_ERROR + json.dumps({"reason": reason, "message": message}) + "\n"


def test_failed_batch_reports_own_error_instead_of_engine_output() -> None:
    own = own_error("JobFailed", "OSError: the claim is full\nand more")
    assert failed_with(NOISE + own) == ("JobFailed", "OSError: the claim is full and more")
    assert failed_with(NOISE + own_error("AccessDenied", "no right to it")) == (
        "AccessDenied",
        "no right to it",
    )
    earlier = own_error("JobFailed", "an earlier one")
    assert failed_with(earlier + NOISE + own + "Exception ignored in: <thread>\n")[1].startswith("OSError")


def test_malformed_own_error_is_reported_as_job_failed() -> None:
    for odd in ("{", "3", '{"message": 3}', '{"message": ""}'):
        assert failed_with(f"exit 1\n{OWN_ERROR}{odd}\n")[0] == "JobFailed"
    assert failed_with(NOISE + own_error("Odd", "why")) == ("JobFailed", "why")


def test_program_output_precedes_worker_output_without_own_error() -> None:
    reason, message = failed_with(NOISE + "OSError: killed in its prime\n" + NOISE.split("\n", 1)[1])
    assert (reason, "OSError: killed in its prime" in message) == ("JobFailed", True)
    assert "call stack" not in message
    assert "call stack" in failed_with(NOISE)[1]


def test_own_error_prefix_is_the_same_in_operator_and_runtime() -> None:
    assert OWN_ERROR == runtime.OWN_ERROR


def test_suspended_batch_keeps_counts_and_has_no_job() -> None:
    _, before = read_message(observe(manifest(), job=job(), progress=RUNNING))
    kept = before.model_dump(mode="json", by_alias=True, exclude_none=True)
    decision, status = read_message(observe(manifest(status=kept, suspend=True), job=job()))
    assert (decision.apply, decision.running) == (True, False)
    assert (status.phase, status.progress, status.expected_completion_time) == (
        BatchPhase.SUSPENDED,
        "40/100",
        None,
    )


def test_changed_spec_of_started_batch_is_reported_and_not_applied() -> None:
    begun = {"jobHash": job_digest(batch())}
    decision, status = read_message(
        observe(manifest(status=begun, prompt="other"), job=job(), progress=RUNNING)
    )
    assert not decision.apply
    assert conditions(status)["Stalled"] == ("True", "SpecChanged")
    assert status.job_hash == begun["jobHash"]
    # The operator died before it wrote the status, so the spec change is visible in the job only.
    decision, _ = read_message(observe(manifest(prompt="other"), job=job()))
    assert not decision.apply


def test_spec_of_batch_may_change_before_start() -> None:
    decision, _ = read_message(observe(manifest(suspend=True)))
    assert decision.job == ""
    assert decide(observe(manifest(prompt="other"))).apply


def test_invalid_spec_stalls_batch() -> None:
    whole = manifest(output={"uri": "pvc://rows/in.jsonl/out"})
    decision, status = read_message(observe(whole))
    assert not decision.apply
    assert conditions(status)["Stalled"] == ("True", "InvalidSpec")


def test_missing_kuberay_stalls_batch_and_objects_are_still_applied() -> None:
    found = observe(manifest())
    decision, status = read_message(
        Observed(found.manifest, found.subject, (), kuberay_installed=False, now=NOW)
    )
    assert conditions(status)["Stalled"] == ("True", "KubeRayNotInstalled")
    assert decision.apply


def test_job_suspended_by_kueue_is_reported_as_queued() -> None:
    decision = decide(observe(manifest(), job={**job(""), "spec": {"suspend": True}}))
    assert decision.verdict is not None
    assert decision.verdict.reason is BatchReason.QUEUED


def test_accelerator_seconds_grow_by_accelerators_held_before() -> None:
    model = {"name": "m", "source": "hf://a/b"}
    pod = {
        "metadata": {"name": "w", "labels": {"ray.io/node-type": "worker"}},
        "spec": {
            "nodeName": "n",
            "containers": [{"resources": {"requests": {"nvidia.com/gpu": "2"}}}],
        },
        "status": {"phase": "Running"},
    }
    before = {"accelerators": 2, "acceleratorSeconds": 10.0, "acceleratorSecondsTime": "2026-01-02T03:03:35Z"}
    _, status = read_message(observe(manifest(model=model, status=before), job=job(), pods=(pod,)))
    assert (status.accelerators, status.accelerator_seconds) == (2, 70.0)
    _, status = read_message(observe(manifest(model=model, status=before), job=job()))
    assert (status.accelerators, status.accelerator_seconds) == (0, 70.0)


def test_event_is_emitted_only_when_phase_changes() -> None:
    nothing = LLMBatchStatus()
    _, running = read_message(observe(manifest(), job=job(), progress=RUNNING))
    _, failed = read_message(observe(manifest(), job=job(), progress=MISSING))
    assert [(each.warning, each.reason) for each in events(nothing, running)] == [(False, "Running")]
    assert events(running, running) == []
    assert [(each.warning, each.reason) for each in events(running, failed)] == [(True, "InputNotFound")]


def test_report_of_another_batch_or_with_invalid_fields_is_ignored() -> None:
    assert read(b'{"uid": "other", "final": true}', "u-1") is None
    found = read(
        b'{"uid": "u-1", "rows": {"done": "x"}, "rowsPerSecond": [], "errors": 3, "final": 1}', "u-1"
    )
    assert found == Progress("", final=False)
    with pytest.raises(ValueError, match="unexpected character"):
        read(b"<html>", "u-1")


def test_running_job_is_found_unless_head_pod_is_terminating() -> None:
    pod: dict[str, Any] = {
        "metadata": {"labels": {"ray.io/node-type": "head"}},
        "spec": {"nodeName": "n"},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.7",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    found = running_job("u-1", [pod], received=True, role=HEAD)
    assert found is not None
    assert (found.address, found.received) == ("10.0.0.7", True)
    pod["metadata"]["deletionTimestamp"] = str(NOW + timedelta(0))
    assert running_job("u-1", [pod], received=False, role=HEAD) is None


def test_rejected_ray_pods_are_quoted_with_the_field() -> None:
    message = 'pods "night-head" is forbidden: failed quota: team: must specify limits.cpu for: ray-head'
    condition = {"type": "ReplicaFailure", "status": "True", "message": message}
    cluster = {"metadata": {"name": "night-aaaaa"}, "status": {"conditions": [condition]}}
    what = observe(
        manifest(), job=job("Initializing", "", rayClusterName="night-aaaaa"), ray_clusters=(cluster,)
    )
    _, status = read_message(what)
    assert conditions(status)["Stalled"] == ("True", "PodFailed")
    [stalled] = [each.message for each in status.conditions if each.type == "Stalled"]
    assert message in stalled
    assert stalled.endswith("container ray in spec.runtime.head.podTemplate")


@pytest.mark.parametrize(
    ("message", "stalled", "reason"),
    [
        ("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", "False", "Progressing"),
        ('persistentvolumeclaim "weights" not found', "True", "PodFailed"),
    ],
)
def test_pod_without_node_stalls_only_if_volume_claim_is_missing(
    message: str, stalled: str, reason: str
) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod = {
        "metadata": {"name": "w", "labels": {"ray.io/node-type": "worker"}},
        "spec": {},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    _, status = read_message(observe(manifest(), job=job("Initializing", ""), pods=(pod,)))
    assert status.phase == "Starting"
    assert conditions(status)["Stalled"][0] == stalled
    reported = conditions(status)["Stalled" if stalled == "True" else "Reconciling"]
    assert reported == ("True", reason)
    assert any(message in each.message for each in status.conditions)
