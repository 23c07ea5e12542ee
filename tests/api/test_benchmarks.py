"""LLMBenchmark on the real API server: its objects, its job's words, its end.

The kubelet is played by the test; how far the job is is told by the runtime's own program part, on loopback.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.ray.ports import BATCH
from daybreak_runtime.benchmark.progress import Progress
from daybreak_runtime.benchmark.run import Course, Gain
from tests.api.admin import Admin, Refused, eventually
from tests.api.benchmarks import OBJECTS, SPEC, condition, everything, phase, status, tune
from tests.api.operator_process import OperatorProcess
from tests.api.played import play_pod
from tests.unit.runtime.benchmark.steps import trial

SERVICE: dict[str, Any] = {
    "apiVersion": "daybreak.dev/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "chat", "annotations": {"daybreak.dev/fit-check": "off"}},
    "spec": {"models": [SPEC["model"] | {"engine": {"args": {"max_num_seqs": 64}}}]},
}


def stalled(admin: Admin, reason: str) -> str:
    """The message, when it is stalled for that reason."""
    found = eventually(
        f"Stalled, {reason}",
        lambda: each if (each := condition(admin, "Stalled")).get("reason") == reason else None,
    )
    assert found["status"] == "True"
    message: str = found["message"]
    return message


def told(admin: Admin) -> str:
    """The order in the pod's environment."""
    pod = admin.get("Job", "tune-benchmark")["spec"]["template"]["spec"]
    [found] = [each["value"] for each in pod["containers"][0]["env"] if each["name"] == "DAYBREAK_BENCHMARK"]
    return str(found)


@pytest.fixture
def benchmark(admin: Admin, operator: OperatorProcess) -> Iterator[Any]:
    """A benchmark with all its objects."""
    made = admin.create(tune())
    eventually("its objects", lambda: everything(admin))
    yield made
    if admin.get("LLMBenchmark", "tune"):
        admin.delete("LLMBenchmark", "tune")


@pytest.fixture
def job(admin: Admin, benchmark: Any) -> Iterator[Progress]:
    """What the benchmark's job tells, on the port of a pod at an address of this machine."""
    progress = Progress(benchmark["metadata"]["uid"])
    progress.listen(BATCH)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    play_pod(admin, "tune-pod", {names.SERVICE_LABEL: "benchmark.tune"}, conditions=[ready])
    yield progress
    progress.close()


def test_its_objects_are_its_own_and_taken_by_the_api_server(admin: Admin, benchmark: Any) -> None:
    found = everything(admin)
    assert found
    for each in found.values():
        [owner] = each["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("LLMBenchmark", benchmark["metadata"]["uid"])
    [container] = found["Job"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "-m", "daybreak_runtime.benchmark"]
    assert benchmark["metadata"]["uid"] in told(admin)
    eventually("the digest of what it began with", lambda: status(admin).get("job"))


def test_how_far_it_is_and_its_end(admin: Admin, job: Progress) -> None:
    course = Course([trial({}, 3.0)], now="max_num_seqs 2: 8 clients")
    job.course(course, None, 0.01)
    found = phase(admin, "Running")
    found = eventually("a step", lambda: now if (now := status(admin)).get("steps") else None)
    assert found["progress"] == "max_num_seqs 2: 8 clients"
    assert found["recommendation"] == "baseline"
    course.trials += [trial({"max_num_seqs": 2}, 6.0), trial({"max_num_seqs": 4}, None)]
    course.now, course.stopped = "", "max_num_seqs: 4 does not start"
    job.course(course, Gain(2.0, 0.02), 0.01)
    assert job.end(), "the job ends when its last word stands in the status"
    found = phase(admin, "Succeeded")
    assert found["recommended"] == {"max_num_seqs": 2}
    assert found["gain"] == {"ratio": 2.0, "noise": 0.02, "certain": True}
    assert found["best"]["requestsPerSecond"] == 6.0
    assert [each["settings"] for each in found["steps"]] == [{}, {"max_num_seqs": 2}, {"max_num_seqs": 4}]
    assert found["steps"][2]["failure"] == "out of memory"
    assert found["stopped"] == "max_num_seqs: 4 does not start"
    # The Job goes by its own time; what stands in the status stays, and nothing is made anew.
    admin.delete("Pod", "tune-pod")
    admin.delete("Job", "tune-benchmark")
    eventually("its Job gone", lambda: admin.get("Job", "tune-benchmark") is None)
    events = eventually("an event", lambda: admin.list("Event"))
    assert "Succeeded" in {each["reason"] for each in events}
    assert status(admin)["phase"] == "Succeeded"
    assert admin.get("Job", "tune-benchmark") is None


def test_an_engine_that_never_starts_is_told(admin: Admin, job: Progress) -> None:
    assert job.end("EngineFailed", "no engine could be measured: CUDA out of memory")
    phase(admin, "Failed")
    assert "CUDA out of memory" in stalled(admin, "EngineFailed")
    assert condition(admin, "Failed")["status"] == "True"


def test_suspended_and_begun_anew(admin: Admin, benchmark: Any) -> None:
    before = admin.get("Job", "tune-benchmark")["metadata"]["uid"]
    admin.merge("LLMBenchmark", "tune", {"spec": {"suspend": True}})
    eventually("no Job", lambda: admin.get("Job", "tune-benchmark") is None)
    phase(admin, "Suspended")
    admin.merge("LLMBenchmark", "tune", {"spec": {"suspend": False}})
    again = eventually("a Job", lambda: admin.get("Job", "tune-benchmark"))
    assert again["metadata"]["uid"] != before


def test_a_change_after_the_beginning_is_told_and_not_carried_out(admin: Admin, benchmark: Any) -> None:
    before = told(admin)
    eventually("the digest of what it began with", lambda: status(admin).get("job"))
    admin.merge("LLMBenchmark", "tune", {"spec": {"load": {"clients": [9]}}})
    assert "make a new LLMBenchmark" in stalled(admin, "SpecChanged")
    assert told(admin) == before
    admin.merge("LLMBenchmark", "tune", {"spec": {"load": SPEC["load"]}})
    eventually("all well", lambda: condition(admin, "Stalled").get("status") == "False")


def test_a_copy_of_a_service_is_made_once_the_service_is_there(
    admin: Admin, operator: OperatorProcess
) -> None:
    admin.create(tune(model=None, serviceRef={"name": "chat"}))
    assert "there is no LLMService chat" in stalled(admin, "ServiceMissing")
    admin.create(SERVICE)
    eventually("its objects", lambda: everything(admin))
    before = told(admin)
    assert '"max_num_seqs":64' in before
    # The copy is measured as it began, whatever becomes of the service; and the service is left as it is.
    admin.delete("LLMService", "chat")
    eventually("no service", lambda: admin.get("LLMService", "chat") is None)
    admin.merge("LLMBenchmark", "tune", {"metadata": {"labels": {"look": "again"}}})
    eventually("the status", lambda: status(admin).get("job"))
    assert told(admin) == before
    assert condition(admin, "Stalled").get("status") == "False"


def test_what_is_removed_comes_back(admin: Admin, benchmark: Any) -> None:
    before = admin.get("Job", "tune-benchmark")["metadata"]["uid"]
    admin.delete("NetworkPolicy", "benchmark.tune-ray")
    admin.delete("Job", "tune-benchmark")
    eventually("its NetworkPolicy", lambda: admin.get("NetworkPolicy", "benchmark.tune-ray"))
    eventually(
        "another Job",
        lambda: (found := admin.get("Job", "tune-benchmark")) and found["metadata"]["uid"] != before,
    )


def test_a_job_of_somebody_elses_is_never_taken_over(admin: Admin, operator: OperatorProcess) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
    theirs = admin.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "tune-benchmark"},
            "spec": {"suspend": True, "template": {"spec": pod}},
        }
    )
    admin.create(tune())
    assert "Job/tune-benchmark" in stalled(admin, "NameTaken")
    assert admin.get("Job", "tune-benchmark")["metadata"]["uid"] == theirs["metadata"]["uid"]
    admin.delete("Job", "tune-benchmark")
    eventually("its own", lambda: everything(admin))


def test_everything_goes_with_it(admin: Admin, benchmark: Any) -> None:
    admin.delete("LLMBenchmark", "tune")
    eventually("all gone", lambda: not any(admin.get(kind, name) for kind, name in OBJECTS.items()))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"serviceRef": {"name": "a"}}, "either a model of its own or a serviceRef"),
        ({"load": {}}, "either clients or rates"),
        ({"load": {"clients": [1], "outputTokens": {"min": 9, "max": 8}}}, "max must not be below min"),
        ({"model": None, "serviceRef": {"name": "a", "where": "Service"}}, "a sweep starts engines anew"),
        ({"output": {"uri": "http://x/y"}}, "write pvc://claim/path"),
        ({"sweep": [{"argument": "a", "values": []}]}, "should have at least 1 items"),
    ],
)
def test_what_the_api_server_refuses(admin: Admin, change: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused) as found:
        admin.create(tune(**change))
    assert words in str(found.value)


def test_an_argument_that_vllm_does_not_know_is_told_with_the_nearest(
    admin: Admin, operator: OperatorProcess
) -> None:
    admin.create(tune(sweep=[{"argument": "max_num_seq", "values": [1]}]))
    assert "max_num_seqs" in stalled(admin, "InvalidSpec")
    assert admin.get("Job", "tune-benchmark") is None
