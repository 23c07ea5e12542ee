"""LLMBatch on the real API server, in addition to the tests for every kind with one job (`test_jobs.py`).

The test plays KubeRay; the runtime's progress program reports the job's progress on loopback.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from daybreak.api.llmbatch.definition import QUEUE_LABEL
from daybreak_runtime.batch.progress import Progress
from tests.api.admin import Admin, Refused, events_with, eventually
from tests.api.objects.batches import NIGHT, kuberay_says, read_report
from tests.api.objects.jobs import batch_speaks
from tests.api.objects.llmservice import model, tiny
from tests.api.operator_process import OperatorProcess


@pytest.fixture
def batch(admin: Admin, operator: OperatorProcess) -> Iterator[Any]:
    """Yield a batch with all its objects."""
    with NIGHT.made(admin) as made:
        yield made


@pytest.fixture
def job(admin: Admin, batch: Any) -> Iterator[Progress]:
    """Yield the progress that the batch's job reports, on the port of a head pod."""
    with batch_speaks(admin, batch["metadata"]["uid"]) as progress:
        yield progress


def test_ray_job_is_submitted_in_http_mode(admin: Admin, batch: Any) -> None:
    assert admin.get("RayJob", "night")["spec"]["submissionMode"] == "HTTPMode"


def test_service_and_batch_of_same_name_coexist(admin: Admin, batch: Any) -> None:
    service = {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "night", "annotations": {"daybreak.dev/fit-check": "off"}},
        "spec": {"models": [NIGHT.spec["model"]]},
    }
    admin.create(service)
    eventually("the service's objects", lambda: admin.get("RayService", "night"))
    assert NIGHT.everything(admin)
    admin.delete("LLMService", "night")
    eventually("the service's end", lambda: admin.get("RayService", "night") is None)
    assert NIGHT.everything(admin)


def test_changed_and_deleted_objects_are_restored(admin: Admin, batch: Any) -> None:
    before = NIGHT.everything(admin)
    assert before
    admin.merge("RayJob", "night", {"spec": {"entrypoint": "sleep 1"}})
    admin.delete("NetworkPolicy", "batch.night-ray")
    entrypoint = before["RayJob"]["spec"]["entrypoint"]
    eventually(
        "the job's own program",
        lambda: admin.get("RayJob", "night")["spec"]["entrypoint"] == entrypoint,
    )
    eventually("its NetworkPolicy", lambda: admin.get("NetworkPolicy", "batch.night-ray"))
    admin.delete("RayJob", "night")
    eventually(
        "another RayJob",
        lambda: (
            (found := admin.get("RayJob", "night"))
            and found["metadata"]["uid"] != before["RayJob"]["metadata"]["uid"]
        ),
    )


def test_status_reports_progress_and_success_of_batch(admin: Admin, job: Progress) -> None:
    job.state("Running")
    job.rows(total=10, done=4, failed=1, prompt_tokens=8, completion_tokens=9)
    found = NIGHT.phase(admin, "Running")
    found = eventually(
        "its rows", lambda: now if (now := NIGHT.status(admin)).get("progress") == "4/10" else None
    )
    assert found["rows"] == {"total": 10, "done": 4, "failed": 1}
    assert found["tokens"] == {"prompt": 8, "completion": 9}
    job.rows(total=10, done=10, failed=1, prompt_tokens=8, completion_tokens=9)
    assert job.end(), "the job ends when its last word stands in the status"
    found = NIGHT.phase(admin, "Succeeded")
    assert (found["progress"], NIGHT.condition(admin, "Complete")["status"]) == ("10/10", "True")
    # KubeRay deletes the cluster; the values in the status stay.
    kuberay_says(admin, jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    admin.delete("Pod", "night-head")
    admin.delete("RayJob", "night")
    eventually("its RayJob gone", lambda: admin.get("RayJob", "night") is None)
    assert events_with(admin, "Succeeded")
    assert NIGHT.status(admin)["phase"] == "Succeeded"
    assert admin.get("RayJob", "night") is None


def test_failed_ray_job_fails_batch_with_its_message(admin: Admin, batch: Any) -> None:
    kuberay_says(
        admin, jobDeploymentStatus="Failed", jobStatus="FAILED", reason="AppFailed", message="out of x"
    )
    NIGHT.phase(admin, "Failed")
    assert "out of x" in NIGHT.stalled(admin, "JobFailed")


def test_suspended_batch_keeps_progress_and_gets_new_ray_job_on_resume(admin: Admin, job: Progress) -> None:
    job.state("Running")
    job.rows(total=10, done=4, failed=0, prompt_tokens=0, completion_tokens=0)
    NIGHT.phase(admin, "Running")
    eventually("its rows", lambda: NIGHT.status(admin).get("progress") == "4/10")
    before = admin.get("RayJob", "night")["metadata"]["uid"]
    admin.merge("LLMBatch", "night", {"spec": {"suspend": True}})
    eventually("no RayJob", lambda: admin.get("RayJob", "night") is None)
    admin.delete("Pod", "night-head")
    assert NIGHT.phase(admin, "Suspended")["progress"] == "4/10"
    admin.merge("LLMBatch", "night", {"spec": {"suspend": False}})
    again = eventually("a RayJob", lambda: admin.get("RayJob", "night"))
    assert again["metadata"]["uid"] != before


def test_batch_waits_for_missing_service_and_model(admin: Admin, operator: OperatorProcess) -> None:
    admin.create(NIGHT.manifest(model=None, serviceRef={"name": "tinny"}))
    assert "available: none" in NIGHT.stalled(admin, "ServiceNotFound")
    admin.create(tiny())
    eventually(
        "the name that there is", lambda: "did you mean tiny?" in NIGHT.stalled(admin, "ServiceNotFound")
    )
    assert admin.get("RayJob", "night") is None
    admin.merge("LLMBatch", "night", {"spec": {"serviceRef": {"name": "tiny", "model": "poet"}}})
    eventually("no such model", lambda: "has no model poet" in NIGHT.stalled(admin, "ServiceNotFound"))
    admin.merge("LLMService", "tiny", {"spec": {"models": [model(name="poet")]}})
    eventually("its objects", lambda: NIGHT.everything(admin))
    assert '"model":"poet"' in read_report(admin)
    admin.delete("LLMService", "tiny")
    eventually("no RayJob without a service", lambda: admin.get("RayJob", "night") is None)
    assert "there is no LLMService tiny" in NIGHT.stalled(admin, "ServiceNotFound")
    admin.create(tiny(models=[model(name="poet")]))
    eventually("its objects again", lambda: NIGHT.everything(admin))


def test_operator_keeps_suspension_and_node_selector_of_kueue(
    admin: Admin, operator: OperatorProcess
) -> None:
    """The test plays Kueue's writes: `suspend` of the RayJob, and at admission nodes for its pods."""
    desired = NIGHT.manifest()
    desired["metadata"]["labels"] = {QUEUE_LABEL: "gpus"}
    admin.create(desired)
    job = eventually("a RayJob", lambda: admin.get("RayJob", "night"))
    assert job["metadata"]["labels"][QUEUE_LABEL] == "gpus"
    [group] = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"]
    admin.merge("RayJob", "night", {"spec": {"suspend": True}})
    eventually("queued", lambda: NIGHT.condition(admin, "Reconciling").get("reason") == "Queued")
    # Fields of the batch that may change reach the RayJob, in addition to the values that Kueue has written.
    admin.merge("LLMBatch", "night", {"spec": {"ttlAfterFinished": "60s"}})
    eventually(
        "the RayJob's other time",
        lambda: admin.get("RayJob", "night")["spec"]["ttlSecondsAfterFinished"] == 60,
    )
    assert admin.get("RayJob", "night")["spec"]["suspend"] is True
    # It is admitted.
    group["template"]["spec"]["nodeSelector"] = {"pool": "gpus"}
    cluster = {"workerGroupSpecs": [group]}
    admin.merge("RayJob", "night", {"spec": {"suspend": False, "rayClusterSpec": cluster}})
    eventually("not queued", lambda: NIGHT.condition(admin, "Reconciling").get("reason") == "Progressing")
    generation = admin.get("RayJob", "night")["metadata"]["generation"]
    operator.kill()
    operator.start()
    operator.wait_ready()
    # Kueue takes its quota away: the batch waits again, and its RayJob is not recreated.
    admin.merge("RayJob", "night", {"spec": {"suspend": True}})
    eventually("queued again", lambda: NIGHT.condition(admin, "Reconciling").get("reason") == "Queued")
    found = admin.get("RayJob", "night")
    assert found["metadata"]["uid"] == job["metadata"]["uid"]
    assert found["metadata"]["generation"] == generation + 1, "the operator has written nothing"
    [group] = found["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert group["template"]["spec"]["nodeSelector"] == {"pool": "gpus"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"serviceRef": {"name": "a"}}, "a batch needs either model or serviceRef"),
        ({"prompt": None}, "one of prompt, messages and messagesColumn"),
        ({"input": {"uri": "http://x/y"}}, "write pvc://claim/path"),
        ({"output": {"uri": "pvc://rows/../out"}}, "a path must not contain '..'"),
        ({"output": {"uri": "pvc://rows/out", "format": "OpenAI"}}, "belongs to input.format OpenAI"),
    ],
)
def test_api_server_rejects_invalid_spec(admin: Admin, change: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused) as found:
        admin.create(NIGHT.manifest(**change))
    assert words in str(found.value)
