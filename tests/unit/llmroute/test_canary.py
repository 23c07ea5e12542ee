"""A canary, step by step: conditions for the next step, for the rollback, and the status of each."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from daybreak.kinds.llmroute.decide.decision import decide
from daybreak.kinds.llmroute.observe.observed import Observed, observe_route
from daybreak.kinds.llmroute.status.report import again, events, report
from daybreak.protocol.tallies import GatewayTally, Histogram, RouteTally, Tally
from tests.unit.llmroute.routes import Manifest, backend, canary, route, service, there

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FAST, SLOW = Histogram({10: 1}), Histogram({30: 1})


class Rollout:
    """A route with a canary that is reconciled at given times."""

    def __init__(self, **spec: Any) -> None:
        backends = [backend(weight=60), backend("two", "b", weight=40), backend("next", "c")]
        self.manifest: Manifest = route(**{"backends": backends, "canary": canary(), **spec})
        self.now = NOW
        self.reported: dict[str, GatewayTally] = {}
        self.states: dict[str, str] = {}
        self.news: list[tuple[bool, str]] = []

    @property
    def status(self) -> Manifest:
        """Return the latest status."""
        found: Manifest = self.manifest["status"]
        return found

    @property
    def weights(self) -> list[int]:
        """Return the weights that gateways use."""
        return [each["weight"] for each in self.status["backends"]]

    def condition(self, kind: str) -> tuple[str, str]:
        """Return the status and the reason of a condition."""
        found = {each["type"]: each for each in self.status["conditions"]}
        return found[kind]["status"], found[kind]["reason"]

    def message(self) -> str:
        """Return the message of the condition `Canary`."""
        found = {each["type"]: each for each in self.status["conditions"]}
        return str(found["Canary"]["message"])

    def got(
        self,
        errors: int = 0,
        number: int = 1000,
        times: Histogram = FAST,
        part: float = 0.05,
        *,
        others: Histogram = FAST,
        stable_errors: int = 0,
    ) -> None:
        """Report requests since the step began, with the canary's part of them."""
        mine = round(number * part)
        rest = number - mine
        of: Mapping[str, Tally] = {
            "one/a": Tally(rest, rest, stable_errors, many(others, rest), many(others, rest)),
            "next/c": Tally(mine, mine, errors, many(times, mine), many(times, mine)),
        }
        self.reported["g"] = GatewayTally("g", False, RouteTally(self.status["counts"]["startTime"], of))

    def look(self, minutes: float = 0) -> float | None:
        """Reconcile after this number of minutes, and return the seconds until the next reconcile."""
        self.now += timedelta(minutes=minutes)
        each = observe_route(self.manifest, tuple(self.reported.values()))
        names = (("one", "a"), ("two", "b"), ("next", "c"))
        services = there(
            *(service(name, model, state=self.states.get(name, "Open")) for name, model in names)
        )
        decision = decide(Observed((each,), services), self.now)["chat"]
        wait, status = again(each, decision, self.now), report(each, decision, self.now)
        before = self.manifest.get("status")
        self.news = [(event.warning, event.reason) for event in events(before or {}, status)]
        self.manifest["status"] = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        return wait


def many(times: Histogram, number: int) -> Histogram:
    return Histogram({bucket: number for bucket in times.counts} if number else {})


@pytest.fixture
def rollout() -> Rollout:
    """Return a rollout that has begun."""
    found = Rollout()
    found.look()
    return found


def test_new_canary_begins_with_first_step(rollout: Rollout) -> None:
    assert rollout.weights == [285, 190, 25]
    assert [each["share"] for each in rollout.status["backends"]] == [0.57, 0.38, 0.05]
    assert rollout.condition("Canary") == ("True", "CanaryProgressing")
    assert "step 1 of 3: 5 % of the requests; continues at 2026-01-01T00:10:00Z" in rollout.message()
    assert rollout.condition("Ready") == ("True", "Routed")
    assert rollout.news == [(False, "CanaryProgressing"), (False, "Routed")]
    assert rollout.look(1) == 540.0
    assert rollout.news == []


def test_canary_advances_through_all_steps_and_is_promoted(rollout: Rollout) -> None:
    for step, percent in enumerate((5, 25, 100), 1):
        assert (rollout.status["canary"]["step"], rollout.status["canary"]["weight"]) == (step, percent)
        since = rollout.status["counts"]["startTime"]
        rollout.got(number=4000, part=percent / 100)
        rollout.look(9)
        assert rollout.status["canary"]["step"] == step, "not before its time"
        rollout.look(2)
    assert rollout.status["counts"]["startTime"] == since, "its share is what it was"
    assert rollout.condition("Canary") == ("True", "CanaryPromoted")
    assert rollout.weights == [0, 0, 500]
    assert rollout.news == [(False, "CanaryPromoted")]
    assert "0 errors of 4000 answers" in rollout.message()
    written = rollout.status
    rollout.got(errors=4000, number=4000, part=1)
    rollout.look(0.1)
    assert rollout.status["canary"] == written["canary"], "it is over"


def at_weight_100(rollout: Rollout, before: Histogram = FAST) -> None:
    """Advance a canary to its last step. One in 200 requests to the other backends fails."""
    for percent in (5, 25):
        rollout.got(number=4000, part=percent / 100, times=before, others=before, stable_errors=20)
        rollout.look(11)
    assert rollout.weights == [0, 0, 500]


@pytest.mark.parametrize(("errors", "phase"), [(5000, "RolledBack"), (300, "RolledBack"), (25, "Promoted")])
def test_at_weight_100_errors_are_compared_with_earlier_steps(
    rollout: Rollout, errors: int, phase: str
) -> None:
    at_weight_100(rollout)
    rollout.got(errors=errors, number=5000, part=1)
    rollout.look(10)
    assert rollout.status["canary"]["phase"] == phase
    assert "of 6800" in rollout.message(), "of both earlier steps"


def test_at_weight_100_times_are_compared_with_earlier_steps(rollout: Rollout) -> None:
    at_weight_100(rollout)
    rollout.got(number=5000, part=1, times=SLOW)
    rollout.look(1)
    assert "in step 3, at 100 %: time to first token P95: 1.81 s" in rollout.message()
    assert "where the others have 0.0566 s in 6800" in rollout.message()
    both_slow = Rollout()
    both_slow.look()
    at_weight_100(both_slow, before=SLOW)
    both_slow.got(number=5000, part=1, times=SLOW)
    both_slow.look(10)
    assert both_slow.condition("Canary") == ("True", "CanaryPromoted")


def test_canary_beginning_at_weight_100_is_compared_with_earlier_results() -> None:
    rollout = Rollout()
    del rollout.manifest["spec"]["canary"]
    rollout.look()
    rollout.got(number=4000, part=0, stable_errors=400)
    rollout.look(1)
    rollout.manifest["spec"]["canary"] = canary(steps=[{"weight": 100, "duration": "10m"}])
    rollout.look(1)
    assert rollout.status["canary"]["stable"]["errors"] == 400
    rollout.got(errors=400, number=4000, part=1)
    rollout.look(5)
    assert rollout.status["canary"]["phase"] == "Progressing", "as many errors as the others had"
    rollout.got(errors=1000, number=4000, part=1)
    rollout.look(1)
    assert rollout.status["canary"]["phase"] == "RolledBack"


def test_canary_without_comparison_results_has_absolute_error_limit() -> None:
    rollout = Rollout(canary=canary(steps=[{"weight": 100, "duration": "10m"}]))
    rollout.look()
    rollout.got(errors=100, number=1000, part=1)
    rollout.look(1)
    assert rollout.status["canary"]["phase"] == "RolledBack"
    assert "100 of 1000 (10 %), where the others have no results" in rollout.message()


@pytest.mark.parametrize("limit", [{"errorRate": 0.01}, {"ttftP95": 1.5}, {"latencyP99": 1.5}])
def test_canary_with_errors_only_is_never_promoted(limit: dict[str, float]) -> None:
    steps = [{"weight": 100, "duration": "10m"}]
    rollout = Rollout(canary=canary(steps=steps, analysis={"minRequests": 1, **limit}))
    rollout.look()
    rollout.got(errors=10, number=10, part=1)
    rollout.look(20)
    if "errorRate" not in limit:
        assert (
            "waits for requests: errors exceed maxErrorRate (50 %), possibly by chance" in rollout.message()
        )
    rollout.got(errors=20, number=20, part=1)
    rollout.look(1)
    assert rollout.status["canary"]["phase"] == "RolledBack"


def test_canary_waits_and_reports_if_requests_are_too_few(rollout: Rollout) -> None:
    assert rollout.look(60) is None
    assert "waits for requests: it needs 100 answers, and so do the others" in rollout.message()
    written = rollout.status
    rollout.look(600)
    assert rollout.status == written
    rollout.got(number=1000)
    rollout.look(1)
    assert rollout.status["canary"]["step"] == 1, "50 are too few"
    rollout.got(number=2000)
    rollout.look(1)
    assert rollout.status["canary"]["step"] == 2


def test_requests_before_step_do_not_count(rollout: Rollout) -> None:
    rollout.got(number=4000)
    rollout.look(10)
    assert rollout.status["canary"]["step"] == 2
    rollout.look(10)
    rollout.look(10)
    assert rollout.status["canary"]["step"] == 2


def test_canary_with_significantly_more_errors_is_rolled_back(rollout: Rollout) -> None:
    rollout.got(errors=30)
    rollout.look(1)
    assert rollout.weights[2] == 0
    assert rollout.weights[0] / rollout.weights[1] == 1.5
    assert rollout.condition("Canary") == ("False", "CanaryRolledBack")
    assert rollout.condition("Stalled") == ("True", "CanaryRolledBack")
    assert rollout.condition("Ready") == ("True", "Routed"), "the others answer"
    assert "in step 1, at 5 %: errors: 30 of 50 (60 %), where the others have 0 of 950" in rollout.message()
    assert rollout.news == [(True, "CanaryRolledBack")]
    written = rollout.status
    rollout.reported.clear()
    rollout.look(600)
    assert rollout.status == written, "it stays so"
    assert rollout.news == []


def test_canary_with_slower_answers_is_rolled_back(rollout: Rollout) -> None:
    rollout.got(times=SLOW, number=4000)
    rollout.look(1)
    assert rollout.condition("Canary") == ("False", "CanaryRolledBack")
    assert "time to first token P95: 1.81 s in 200 answers" in rollout.message()


def test_canary_that_cannot_start_is_rolled_back(rollout: Rollout) -> None:
    rollout.states["next"] = "Failed"
    rollout.look(1)
    assert rollout.condition("Canary") == ("False", "CanaryRolledBack")
    assert "it could not start" in rollout.message()
    assert rollout.condition("Ready") == ("True", "Routed")


def test_new_run_id_restarts_canary(rollout: Rollout) -> None:
    rollout.got(errors=30)
    rollout.look(1)
    rollout.manifest["spec"]["canary"] = canary(runID="2")
    rollout.look(1)
    assert rollout.condition("Canary") == ("True", "CanaryProgressing")
    assert rollout.weights == [285, 190, 25]
    assert rollout.condition("Stalled")[0] == "False"


def test_changed_steps_apply_during_and_after_canary(rollout: Rollout) -> None:
    steps = [{"weight": 10, "duration": "10m"}, {"weight": 50, "duration": "10m"}]
    rollout.manifest["spec"]["canary"] = canary(steps=steps)
    rollout.look(5)
    assert (rollout.status["canary"]["step"], rollout.status["canary"]["weight"]) == (1, 10)
    assert rollout.status["canary"]["startTime"] == "2026-01-01T00:05:00Z", "the new share has its own time"
    for _ in steps:
        rollout.got(number=4000, part=0.1)
        rollout.look(10)
    assert rollout.condition("Canary") == ("True", "CanaryPromoted")
    rollout.manifest["spec"]["canary"] = canary(steps=[*steps, {"weight": 80, "duration": "10m"}])
    rollout.look(1)
    assert (rollout.status["canary"]["step"], rollout.status["canary"]["weight"]) == (3, 80)
    assert rollout.condition("Canary") == ("True", "CanaryProgressing")


def test_spec_weights_apply_after_canary_is_removed(rollout: Rollout) -> None:
    del rollout.manifest["spec"]["canary"]
    rollout.look(1)
    assert rollout.weights == [60, 40, 1]
    assert "canary" not in rollout.status
    assert "Canary" not in {each["type"] for each in rollout.status["conditions"]}


def test_canary_with_missing_backend_waits_in_first_step() -> None:
    rollout = Rollout(canary=canary(model="d"), backends=[backend(weight=1), backend("next", "d", weight=0)])
    rollout.look()
    assert rollout.condition("Ready") == ("False", "BackendNotFound"), "the canary must receive requests"
    rollout.look(60)
    assert rollout.status["canary"]["step"] == 1


def test_skipped_sleeping_canary_is_reported() -> None:
    rollout = Rollout(sleepingBackends="Skip")
    rollout.states["next"] = "Closed"
    rollout.look()
    rollout.look(60)
    assert "it sleeps, and the route has sleepingBackends: Skip" in rollout.message()


def test_canary_restarts_if_status_is_malformed(rollout: Rollout) -> None:
    rollout.manifest["status"] = {**rollout.status, "canary": {"step": "two"}, "counts": 3}
    rollout.look(1)
    assert rollout.status["canary"]["step"] == 1
