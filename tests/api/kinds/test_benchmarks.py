"""LLMBenchmark on the real API server, in addition to the tests for every kind with one job (`test_jobs.py`).

The test plays the kubelet; the runtime's progress program reports the job's progress on loopback.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from daybreak_runtime.benchmark.progress import Progress
from daybreak_runtime.benchmark.run import Course, Gain
from tests.api.admin import Admin, Refused, events_with, eventually
from tests.api.objects.benchmarks import TUNE, read_report
from tests.api.objects.jobs import benchmark_speaks
from tests.api.operator_process import OperatorProcess
from tests.unit.runtime.benchmark.steps import trial

SERVICE: dict[str, Any] = {
    "apiVersion": "daybreak.dev/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "chat", "annotations": {"daybreak.dev/fit-check": "off"}},
    "spec": {"models": [TUNE.spec["model"] | {"engine": {"args": {"max_num_seqs": 64}}}]},
}


@pytest.fixture
def benchmark(admin: Admin, operator: OperatorProcess) -> Iterator[Any]:
    """Yield a benchmark with all its objects."""
    with TUNE.made(admin) as made:
        yield made


@pytest.fixture
def job(admin: Admin, benchmark: Any) -> Iterator[Progress]:
    """Yield the progress that the benchmark's job reports, on the port of its pod."""
    with benchmark_speaks(admin, benchmark["metadata"]["uid"]) as progress:
        yield progress


def test_job_pod_runs_benchmark_module(admin: Admin, benchmark: Any) -> None:
    [container] = admin.get("Job", "tune-benchmark")["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "-m", "daybreak_runtime.benchmark"]


def test_status_reports_steps_and_result_of_benchmark(admin: Admin, job: Progress) -> None:
    course = Course([trial({}, 3.0)], now="max_num_seqs 2: 8 clients")
    job.course(course, None, 0.01)
    found = TUNE.phase(admin, "Running")
    found = eventually("a step", lambda: now if (now := TUNE.status(admin)).get("steps") else None)
    assert found["progress"] == "max_num_seqs 2: 8 clients"
    assert found["recommendation"] == "baseline"
    course.trials += [trial({"max_num_seqs": 2}, 6.0), trial({"max_num_seqs": 4}, None)]
    course.now, course.stopped = "", "max_num_seqs: 4 does not start"
    job.course(course, Gain(2.0, 0.02), 0.01)
    job.keep({"report.html": "<p>page</p>", "curve.png": "aGk=", "other.html": "not known"})
    assert job.end(), "the job ends when its last word stands in the status"
    found = TUNE.phase(admin, "Succeeded")
    assert found["recommended"] == {"max_num_seqs": 2}
    assert found["gain"] == {"ratio": 2.0, "noise": 0.02, "significant": True}
    assert found["best"]["requestsPerSecond"] == 6.0
    assert [each["settings"] for each in found["steps"]] == [{}, {"max_num_seqs": 2}, {"max_num_seqs": 4}]
    assert found["steps"][2]["failure"] == "out of memory"
    assert found["stopReason"] == "max_num_seqs: 4 does not start"
    report = admin.get("ConfigMap", "tune-report")
    assert (report["data"], report["binaryData"]) == ({"report.html": "<p>page</p>"}, {"curve.png": "aGk="})
    [owner] = report["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("LLMBenchmark", "tune", True)
    assert found["report"]["configMap"] == "tune-report"
    assert found["report"]["files"] == ["report.html", "curve.png"]
    # The Job expires by its TTL; the values in the status stay, and nothing is recreated.
    admin.delete("Pod", "tune-pod")
    admin.delete("Job", "tune-benchmark")
    eventually("its Job gone", lambda: admin.get("Job", "tune-benchmark") is None)
    assert events_with(admin, "Succeeded")
    assert TUNE.status(admin)["phase"] == "Succeeded"
    assert admin.get("Job", "tune-benchmark") is None


def test_benchmark_succeeds_if_report_name_is_taken(admin: Admin, job: Progress) -> None:
    admin.create({"kind": "ConfigMap", "metadata": {"name": "tune-report"}, "data": {"a": "theirs"}})
    job.course(Course([trial({}, 3.0)]), None, 0.01)
    job.keep({"report.html": "<p>"})
    assert job.end()
    found = TUNE.phase(admin, "Succeeded")
    assert found["report"]["message"] == "not kept: ConfigMap/tune-report is not managed by Daybreak"
    assert admin.get("ConfigMap", "tune-report")["data"] == {"a": "theirs"}
    admin.delete("ConfigMap", "tune-report")


def test_benchmark_copies_service_once_service_exists(admin: Admin, operator: OperatorProcess) -> None:
    admin.create(TUNE.manifest(model=None, serviceRef={"name": "chat"}))
    assert "there is no LLMService chat" in TUNE.stalled(admin, "ServiceNotFound")
    admin.create(SERVICE)
    eventually("its objects", lambda: TUNE.everything(admin))
    before = read_report(admin)
    assert '"max_num_seqs":64' in before
    # The copy is measured as it began, whatever becomes of the service; and the service is left as it is.
    admin.delete("LLMService", "chat")
    eventually("no service", lambda: admin.get("LLMService", "chat") is None)
    admin.merge("LLMBenchmark", "tune", {"metadata": {"labels": {"look": "again"}}})
    eventually("the status", lambda: TUNE.status(admin).get("jobHash"))
    assert read_report(admin) == before
    assert TUNE.condition(admin, "Stalled").get("status") == "False"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"serviceRef": {"name": "a"}}, "a benchmark needs either model or serviceRef"),
        ({"load": {}}, "either clients or rates"),
        ({"load": {"clients": [1], "outputTokens": {"min": 9, "max": 8}}}, "max must not be below min"),
        ({"model": None, "serviceRef": {"name": "a", "mode": "Service"}}, "a sweep restarts engines"),
        ({"output": {"uri": "http://x/y"}}, "write pvc://claim/path"),
        ({"sweep": [{"argument": "a", "values": []}]}, "should have at least 1 items"),
    ],
)
def test_api_server_rejects_invalid_spec(admin: Admin, change: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused) as found:
        admin.create(TUNE.manifest(**change))
    assert words in str(found.value)


def test_unknown_argument_stalls_benchmark_and_suggests_nearest(
    admin: Admin, operator: OperatorProcess
) -> None:
    admin.create(TUNE.manifest(sweep=[{"argument": "max_num_seq", "values": [1]}]))
    assert "max_num_seqs" in TUNE.stalled(admin, "InvalidSpec")
    assert admin.get("Job", "tune-benchmark") is None
