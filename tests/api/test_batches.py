"""LLMBatch on the real API server: its objects, its job's words, its end.

KubeRay is played by the test; the job's progress is told by the runtime's own program part, on loopback.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.ray.ports import BATCH
from daybreak_runtime.batch.progress import Progress
from tests.api.admin import Admin, Refused, eventually
from tests.api.batches import OBJECTS, SPEC, everything, night, phase, status
from tests.api.operator_process import OperatorProcess
from tests.api.played import play_pod


def condition(admin: Admin, kind: str) -> dict[str, Any]:
    """A condition; empty when it is not there."""
    return next((each for each in status(admin).get("conditions", ()) if each["type"] == kind), {})


def stalled(admin: Admin, reason: str) -> str:
    """The message, when it is stalled for that reason."""
    found = eventually(
        f"Stalled, {reason}",
        lambda: each if (each := condition(admin, "Stalled")).get("reason") == reason else None,
    )
    assert found["status"] == "True"
    message: str = found["message"]
    return message


def kuberay_says(admin: Admin, **said: Any) -> None:
    """What KubeRay writes into the status of the RayJob."""
    admin.merge("RayJob", "night", {"status": said}, subresource="status")


def play_head(admin: Admin) -> None:
    """The head pod, at an address of this machine."""
    labels = {
        names.SERVICE_LABEL: names.of_owner("LLMBatch", "night"),
        names.RAY_NODE_TYPE_LABEL: "head",
        names.RAY_CLUSTER_LABEL: "night-abcde",
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    play_pod(admin, "night-head", labels, conditions=[ready])


def told(job: Any) -> str:
    """The order in the head's environment."""
    pod = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    [found] = [each["value"] for each in pod["containers"][0]["env"] if each["name"] == "DAYBREAK_BATCH"]
    return str(found)


@pytest.fixture
def batch(admin: Admin, operator: OperatorProcess) -> Iterator[Any]:
    """A batch with all its objects."""
    made = admin.create(night())
    eventually("its objects", lambda: everything(admin))
    yield made
    if admin.get("LLMBatch", "night"):
        admin.delete("LLMBatch", "night")


@pytest.fixture
def job(admin: Admin, batch: Any) -> Iterator[Progress]:
    """What the batch's job tells, on the port of a head pod."""
    progress = Progress(batch["metadata"]["uid"])
    progress.listen(BATCH)
    play_head(admin)
    kuberay_says(admin, jobDeploymentStatus="Running", jobStatus="RUNNING")
    yield progress
    progress.close()


def test_its_objects_are_its_own(admin: Admin, batch: Any) -> None:
    found = everything(admin)
    assert found
    for each in found.values():
        [owner] = each["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("LLMBatch", batch["metadata"]["uid"])
    assert found["RayJob"]["spec"]["submissionMode"] == "HTTPMode"
    assert batch["metadata"]["uid"] in told(found["RayJob"])
    eventually("the digest of what it began with", lambda: status(admin).get("job"))


def test_a_service_of_the_same_name_lives_beside_it(admin: Admin, batch: Any) -> None:
    service = {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": "night", "annotations": {"daybreak.dev/fit-check": "off"}},
        "spec": {"models": [SPEC["model"]]},
    }
    admin.create(service)
    eventually("the service's objects", lambda: admin.get("RayService", "night"))
    assert everything(admin)
    admin.delete("LLMService", "night")
    eventually("the service's end", lambda: admin.get("RayService", "night") is None)
    assert everything(admin)


def test_what_somebody_changes_is_put_back(admin: Admin, batch: Any) -> None:
    before = everything(admin)
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


def test_how_far_it_is_and_its_end(admin: Admin, job: Progress) -> None:
    job.state("Running")
    job.rows(total=10, done=4, failed=1, prompt_tokens=8, completion_tokens=9)
    found = phase(admin, "Running")
    found = eventually("its rows", lambda: now if (now := status(admin)).get("progress") == "4/10" else None)
    assert found["rows"] == {"total": 10, "done": 4, "failed": 1}
    assert found["tokens"] == {"prompt": 8, "completion": 9}
    job.rows(total=10, done=10, failed=1, prompt_tokens=8, completion_tokens=9)
    assert job.end(), "the job ends when its last word stands in the status"
    found = phase(admin, "Succeeded")
    assert (found["progress"], condition(admin, "Complete")["status"]) == ("10/10", "True")
    # KubeRay takes the cluster away; what stands in the status stays.
    kuberay_says(admin, jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    admin.delete("Pod", "night-head")
    admin.delete("RayJob", "night")
    eventually("its RayJob gone", lambda: admin.get("RayJob", "night") is None)
    events = eventually("an event", lambda: admin.list("Event"))
    assert "Succeeded" in {each["reason"] for each in events}
    assert status(admin)["phase"] == "Succeeded"
    assert admin.get("RayJob", "night") is None


def test_bad_input_is_told_and_not_tried_again(admin: Admin, job: Progress) -> None:
    assert job.end("InputMissing", "spec.input: pvc://rows/in.jsonl is not there, or is empty")
    phase(admin, "Failed")
    assert "pvc://rows/in.jsonl" in stalled(admin, "InputMissing")
    assert condition(admin, "Failed")["status"] == "True"


def test_a_job_that_fails_for_good(admin: Admin, batch: Any) -> None:
    kuberay_says(
        admin, jobDeploymentStatus="Failed", jobStatus="FAILED", reason="AppFailed", message="out of x"
    )
    phase(admin, "Failed")
    assert "out of x" in stalled(admin, "JobFailed")


def test_suspended_and_resumed(admin: Admin, job: Progress) -> None:
    job.state("Running")
    job.rows(total=10, done=4, failed=0, prompt_tokens=0, completion_tokens=0)
    phase(admin, "Running")
    eventually("its rows", lambda: status(admin).get("progress") == "4/10")
    before = admin.get("RayJob", "night")["metadata"]["uid"]
    admin.merge("LLMBatch", "night", {"spec": {"suspend": True}})
    eventually("no RayJob", lambda: admin.get("RayJob", "night") is None)
    admin.delete("Pod", "night-head")
    assert phase(admin, "Suspended")["progress"] == "4/10"
    admin.merge("LLMBatch", "night", {"spec": {"suspend": False}})
    again = eventually("a RayJob", lambda: admin.get("RayJob", "night"))
    assert again["metadata"]["uid"] != before


def test_a_change_after_the_beginning_is_told_and_not_carried_out(admin: Admin, batch: Any) -> None:
    before = told(admin.get("RayJob", "night"))
    eventually("the digest of what it began with", lambda: status(admin).get("job"))
    admin.merge("LLMBatch", "night", {"spec": {"prompt": "other {{ question }}"}})
    assert "make a new LLMBatch" in stalled(admin, "SpecChanged")
    assert told(admin.get("RayJob", "night")) == before
    admin.merge("LLMBatch", "night", {"spec": {"prompt": SPEC["prompt"]}})
    eventually("all well", lambda: condition(admin, "Stalled").get("status") == "False")


def test_a_job_of_somebody_elses_is_never_taken_over(admin: Admin, operator: OperatorProcess) -> None:
    cluster = {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}}
    theirs = admin.create(
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": "night"},
            "spec": {"entrypoint": "theirs", "rayClusterSpec": cluster},
        }
    )
    admin.create(night())
    assert "RayJob/night" in stalled(admin, "NameTaken")
    assert admin.get("RayJob", "night")["metadata"]["uid"] == theirs["metadata"]["uid"]
    admin.delete("RayJob", "night")
    eventually("its own", lambda: everything(admin))


def test_everything_goes_with_it(admin: Admin, batch: Any) -> None:
    admin.delete("LLMBatch", "night")
    eventually("all gone", lambda: not any(admin.get(kind, name) for kind, name in OBJECTS.items()))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"serviceRef": {"name": "a"}}, "either a model of its own or a serviceRef"),
        ({"prompt": None}, "one of prompt, messages and messagesColumn"),
        ({"input": {"uri": "http://x/y"}}, "write pvc://claim/path"),
        ({"output": {"uri": "pvc://rows/../out"}}, "'..' may not stand in a path"),
        ({"output": {"uri": "pvc://rows/out", "format": "OpenAI"}}, "belongs to input.format OpenAI"),
    ],
)
def test_what_the_api_server_refuses(admin: Admin, change: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused) as found:
        admin.create(night(**change))
    assert words in str(found.value)
