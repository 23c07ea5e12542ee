"""A benchmark with a schedule, decided from observations and the time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from daybreak.api.llmbenchmark.status import RUN_LIMIT, LLMBenchmarkStatus
from daybreak.controller.again import Again
from daybreak.kinds.llmbenchmark.decide.decision import Decision, decide
from daybreak.kinds.llmbenchmark.job_kind import BenchmarkKind
from daybreak.kinds.llmbenchmark.observe.observed import Observed, Progress
from daybreak.kinds.llmbenchmark.observe.observer import read
from daybreak.kinds.llmbenchmark.status.report import report
from daybreak.platform import Platform
from tests.unit.llmbenchmark.benchmarks import manifest
from tests.unit.llmbenchmark.test_decision import LAST, RUNNING

NIGHTLY = {"start": "0 2 * * *", "timeZone": "Europe/Berlin"}
EVENING = datetime(2026, 1, 1, 20, tzinfo=UTC)
NIGHT = datetime(2026, 1, 2, 1, tzinfo=UTC)
"""2:00 in Berlin."""
FAILED = Progress(state="Failed", final=True, reason="EngineFailed", message="out of memory")


class Life:
    """A benchmark: each reconcile writes its status, and creates or deletes its Job as decided."""

    def __init__(self, at: datetime = EVENING, **spec: Any) -> None:
        self.spec: dict[str, Any] = {"schedule": NIGHTLY, **spec}
        self.now = at
        self.status: dict[str, Any] = {}
        self.job: dict[str, Any] | None = None
        self.pods: tuple[dict[str, Any], ...] = ()
        self.message: Progress | None = None
        self.made = 0

    def observed(self) -> Observed:
        whole = manifest(**self.spec) | {"status": self.status}
        found = Observed(whole, *read(whole), self.now)
        return replace(found, job=self.job, pods=self.pods, progress=self.message)

    def look(self, at: datetime | None = None, *, dies: bool = False) -> Decision:
        """Reconcile once. If the operator dies after it has applied the decision, no status is written."""
        self.now = at or self.now
        observed = self.observed()
        decision = decide(observed)
        if decision.apply and decision.target is None:
            self.job, self.message, self.pods = None, None, ()
        elif decision.apply and self.job is None:
            self.job, self.message = {"metadata": {"name": "tune-benchmark"}}, None
            self.made += 1
        if not dies:
            after = report(observed, decision)
            self.status = after.model_dump(mode="json", by_alias=True, exclude_none=True)
        return decision

    def settle(self, at: datetime | None = None) -> dict[str, Any]:
        """Reconcile until the status stays the same, and return it."""
        before: dict[str, Any] = {"-": "-"}
        while before != self.status:
            before = self.status
            self.look(at)
        return self.status

    def ends(self, at: datetime, report: Progress = LAST) -> dict[str, Any]:
        """Report the end of the job, then delete the Job and its pod."""
        self.message = report
        self.settle(at)
        self.job, self.message, self.pods = None, None, ()
        return self.settle(at)


def condition(status: dict[str, Any], kind: str) -> tuple[str, str]:
    [found] = [each for each in status["conditions"] if each["type"] == kind]
    return found["status"], found["reason"]


def test_scheduled_benchmark_starts_at_its_time() -> None:
    life = Life()
    found = life.settle()
    assert (found["phase"], found["nextScheduleTime"], life.made) == ("Pending", "2026-01-02T01:00:00Z", 0)
    assert condition(found, "Reconciling") == ("False", "Scheduled")
    assert condition(found, "Stalled") == ("False", "Scheduled")
    life.settle(NIGHT - timedelta(seconds=1))
    assert life.made == 0
    found = life.settle(NIGHT)
    assert (life.made, found["lastScheduleTime"]) == (1, "2026-01-02T01:00:00Z")
    assert found["nextScheduleTime"] == "2026-01-03T01:00:00Z"


def test_next_reconcile_is_at_start_time() -> None:
    life, kind = Life(), BenchmarkKind(Platform("ray", "ray-cpu"))
    for moment, pause in ((EVENING, 5 * 3600.0), (NIGHT, 0.0)):
        life.now = moment
        again = Again()
        kind.look_again(life.observed(), life.look(), again)
        assert again.seconds == pause


def test_each_run_is_recorded_and_next_run_begins_with_empty_status() -> None:
    life = Life()
    life.settle()
    for night in range(RUN_LIMIT + 2):
        life.settle(NIGHT + timedelta(days=night))
        assert life.made == night + 1
        assert not life.status.get("steps")
        assert "completionTime" not in life.status
        found = life.ends(NIGHT + timedelta(days=night, hours=1), FAILED if night == 3 else LAST)
        assert found["completionTime"]
    runs = LLMBenchmarkStatus.model_validate(life.status).runs
    assert len(runs) == RUN_LIMIT
    assert runs[0].schedule_time == "2026-01-13T01:00:00Z"
    assert runs[0].best is not None
    assert (runs[0].best.settings, runs[0].best.requests_per_second) == ({"max_num_seqs": 4}, 9.5)
    assert runs[0].gain is not None
    assert runs[0].gain.ratio == 2.7
    assert [each.phase.value for each in runs].count("Failed") == 1
    assert next(each for each in runs if each.phase == "Failed").message == "out of memory"


def test_start_is_executed_once_if_operator_restarts() -> None:
    for dies in range(4):
        life = Life()
        life.settle()
        life.now = NIGHT
        for look in range(4):
            life.look(dies=look == dies)
        assert life.made == 1, dies
        life.ends(NIGHT + timedelta(minutes=1))
        assert (life.made, len(life.status["runs"])) == (1, 1)


def test_missed_start_is_executed_once_within_an_hour() -> None:
    """The operator did not run for three nights."""
    late = Life()
    late.settle()
    late.settle(NIGHT + timedelta(days=3, minutes=59))
    assert (late.made, late.status["lastScheduleTime"]) == (1, "2026-01-05T01:00:00Z")
    too_late = Life()
    too_late.settle()
    too_late.settle(NIGHT + timedelta(days=3, minutes=61))
    assert (too_late.made, too_late.status["nextScheduleTime"]) == (0, "2026-01-06T01:00:00Z")


def test_a_start_during_a_run_is_left_out() -> None:
    life = Life(schedule={"start": "0 * * * *"})
    life.settle()
    life.settle(NIGHT)
    life.message = RUNNING
    found = life.settle(NIGHT + timedelta(hours=1, minutes=30))
    assert (life.made, found["nextScheduleTime"]) == (1, "2026-01-02T03:00:00Z")
    found = life.ends(NIGHT + timedelta(hours=1, minutes=40))
    assert (life.made, found["lastScheduleTime"]) == (1, "2026-01-02T01:00:00Z")


def test_previous_job_and_pods_are_deleted_before_next_run() -> None:
    life = Life(ttlAfterFinished="720h")
    life.settle()
    life.settle(NIGHT)
    first, life.message = life.job, LAST
    life.settle(NIGHT + timedelta(hours=1))
    assert life.job is first
    life.look(NIGHT + timedelta(days=1))
    assert life.job is None
    assert life.status["lastScheduleTime"] == "2026-01-02T01:00:00Z"
    life.pods = ({"metadata": {"name": "p"}},)
    life.look()
    assert life.status["phase"] == "Succeeded", "its pod still exists and could be queried"
    life.settle()
    assert (life.made, life.status["lastScheduleTime"]) == (2, "2026-01-03T01:00:00Z")


def test_suspension_stops_current_run_and_prevents_new_runs() -> None:
    life = Life()
    life.settle()
    life.settle(NIGHT)
    life.spec["suspend"] = True
    found = life.settle(NIGHT + timedelta(minutes=10))
    assert (found["phase"], life.job) == ("Suspended", None)
    assert "nextScheduleTime" not in found
    life.settle(NIGHT + timedelta(days=1, minutes=10))
    assert life.made == 1
    life.spec["suspend"] = False
    found = life.settle(NIGHT + timedelta(days=1, minutes=20))
    assert (life.made, found["nextScheduleTime"]) == (1, "2026-01-04T01:00:00Z"), (
        "runs missed while suspended are not made up"
    )
    life.settle(NIGHT + timedelta(days=2))
    assert life.made == 2


def test_suspension_after_run_keeps_its_result() -> None:
    life = Life()
    life.settle()
    life.settle(NIGHT)
    life.ends(NIGHT + timedelta(hours=1))
    life.spec["suspend"] = True
    found = life.settle(NIGHT + timedelta(days=1))
    assert (life.made, found["phase"], len(found["steps"])) == (1, "Succeeded", 1)


def test_between_two_runs_the_spec_may_change() -> None:
    life = Life()
    life.settle()
    life.settle(NIGHT)
    life.spec["load"] = {"clients": [16]}
    assert condition(life.settle(), "Stalled") == ("True", "SpecChanged")
    life.ends(NIGHT + timedelta(hours=1))
    life.settle(NIGHT + timedelta(days=1))
    assert condition(life.status, "Stalled") == ("False", "Progressing")
    assert life.made == 2


def test_changed_schedule_uses_its_own_next_start() -> None:
    life = Life()
    life.settle()
    life.spec["schedule"] = {"start": "0 * * * *"}
    found = life.settle(NIGHT + timedelta(hours=5, minutes=30))
    assert (life.made, found["nextScheduleTime"]) == (0, "2026-01-02T07:00:00Z")


def test_invalid_schedule_is_reported_and_last_result_is_kept() -> None:
    life = Life()
    life.settle()
    life.settle(NIGHT)
    life.ends(NIGHT + timedelta(hours=1))
    life.spec["schedule"] = {"start": "0 25 * * *"}
    found = life.settle(NIGHT + timedelta(hours=2))
    assert condition(found, "Stalled") == ("True", "InvalidSpec")
    assert (found["phase"], len(found["runs"])) == ("Succeeded", 1)
    life.spec["schedule"] = NIGHTLY
    found = life.settle(NIGHT + timedelta(hours=3))
    assert condition(found, "Stalled") == ("False", "Finished")
    assert (found["nextScheduleTime"], len(found["runs"])) == ("2026-01-03T01:00:00Z", 1)


def test_start_is_skipped_if_service_is_missing_for_an_hour() -> None:
    life = Life(model=None, serviceRef={"name": "chat"})
    life.settle()
    found = life.settle(NIGHT)
    assert condition(found, "Stalled") == ("True", "ServiceNotFound")
    again = Again()
    BenchmarkKind(Platform("ray", "ray-cpu")).look_again(life.observed(), life.look(), again)
    assert again.seconds == 3600.0, "nothing else wakes it: a service that comes does"
    found = life.settle(NIGHT + timedelta(minutes=61))
    assert condition(found, "Stalled") == ("False", "Scheduled")
    assert "lastScheduleTime" not in found


def test_finished_benchmark_runs_again_after_schedule_is_added() -> None:
    life = Life(schedule=None)
    life.settle()
    found = life.ends(EVENING)
    assert (life.made, found.get("runs", [])) == (1, [])
    life.spec["schedule"] = NIGHTLY
    assert life.settle()["nextScheduleTime"] == "2026-01-02T01:00:00Z"
    life.settle(NIGHT)
    assert life.made == 2
    life.spec["schedule"] = None
    found = life.settle()
    assert "nextScheduleTime" not in found
    assert life.job is not None, "the current run continues"
