"""A benchmark with a schedule on the real API server: each start makes one Job, even if the operator dies."""

from datetime import UTC, datetime, timedelta
from typing import Any

from daybreak.api.common.unstructured import written
from daybreak_runtime.benchmark.run import Course, Gain
from tests.api.admin import Admin, eventually
from tests.api.objects.benchmarks import TUNE
from tests.api.objects.jobs import benchmark_speaks
from tests.api.operator_process import OperatorProcess
from tests.unit.runtime.benchmark.steps import trial

NEW_YEAR = {"start": "0 2 1 1 *", "timeZone": "Europe/Berlin"}
"""So rare that no start comes but those that the test has come."""


def write(admin: Admin, **status: Any) -> None:
    """Have the status say something else, as if the operator had said so."""
    admin.merge("LLMBenchmark", "tune", {"status": status}, subresource="status")


def ago(**time: float) -> str:
    """Return a past time."""
    return written(datetime.now(UTC) - timedelta(**time))


def again(operator: OperatorProcess) -> None:
    """Start another operator."""
    operator.start()
    operator.wait_ready()


def job(admin: Admin) -> Any:
    """Return the benchmark's Job."""
    return admin.get("Job", "tune-benchmark")


def ends(admin: Admin, best: float) -> dict[str, Any]:
    """Have the benchmark's job measure and report its end."""
    uid = admin.get("LLMBenchmark", "tune")["metadata"]["uid"]
    with benchmark_speaks(admin, uid) as progress:
        course = Course([trial({}, 3.0), trial({"max_num_seqs": 2}, best)], stopped="its last was tried")
        progress.course(course, Gain(best / 3, 0.02), 0.01)
        progress.keep({"report.html": f"<p>{best}"})
        assert progress.end(), "the job ends when its last word stands in the status"
        return TUNE.phase(admin, "Succeeded")


def test_each_scheduled_start_runs_once_despite_operator_restarts(
    admin: Admin, operator: OperatorProcess
) -> None:
    admin.create(TUNE.manifest(schedule=NEW_YEAR))
    waiting = eventually(
        "when it begins", lambda: (now := TUNE.status(admin)).get("nextScheduleTime") and now
    )
    assert waiting["nextScheduleTime"].endswith("-01-01T01:00:00Z")
    assert TUNE.condition(admin, "Reconciling")["reason"] == "Scheduled"
    assert job(admin) is None

    operator.kill()
    come = ago(minutes=5)
    write(admin, nextScheduleTime=come)
    again(operator)
    first = eventually("a Job", lambda: job(admin))
    found = eventually("the digest of the Job", lambda: (now := TUNE.status(admin)).get("jobHash") and now)
    assert (found["lastScheduleTime"], found["nextScheduleTime"]) == (come, waiting["nextScheduleTime"])

    # It died after the status had taken the start: the Job that is there is the run's, and there is no other.
    operator.kill()
    write(admin, job=None, conditions=None)
    again(operator)
    eventually("a status", lambda: TUNE.status(admin).get("jobHash"))
    found = ends(admin, 6.0)
    assert job(admin)["metadata"]["uid"] == first["metadata"]["uid"]
    [run] = found["runs"]
    assert (run["scheduleTime"], run["best"]["requestsPerSecond"], run["gain"]["ratio"]) == (come, 6.0, 2.0)

    # The next run: the operator deletes all objects of the first one before it starts, also the pod.
    come = ago(minutes=1)
    write(admin, nextScheduleTime=come)
    eventually("no Job", lambda: job(admin) is None)
    assert TUNE.status(admin)["phase"] == "Succeeded"
    operator.kill()
    admin.delete("Pod", "tune-pod")
    again(operator)
    second = eventually("a Job", lambda: job(admin))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert TUNE.status(admin).get("steps", []) == []
    found = ends(admin, 9.0)
    assert [each["gain"]["ratio"] for each in found["runs"]] == [3.0, 2.0]
    assert found["runs"][0]["scheduleTime"] == come
    assert admin.get("ConfigMap", "tune-report")["data"] == {"report.html": "<p>9.0"}

    # One that was missed for too long is left out.
    operator.kill()
    write(admin, nextScheduleTime=ago(days=2))
    again(operator)
    eventually("the next one", lambda: TUNE.status(admin)["nextScheduleTime"] == waiting["nextScheduleTime"])
    assert job(admin)["metadata"]["uid"] == second["metadata"]["uid"]
    assert len(TUNE.status(admin)["runs"]) == 2
