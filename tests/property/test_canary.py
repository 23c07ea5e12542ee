"""Histories of a canary: time passes, requests come or do not, operators die before they have written."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from daybreak.api.llmroute.canary import Canary, CanaryPhase, CanaryStatus
from daybreak.api.llmroute.status import BackendState
from daybreak.api.schema.scalars import parse_duration
from daybreak.kinds.llmroute.decide.canary import CanaryObservation, canary_before, move
from daybreak.protocol.tallies import Histogram, Tally

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Event:
    """Some time, with requests in it."""

    minutes: int
    mine: int
    others: int
    errors: float
    """Part of the canary's answers."""
    slow: bool
    written: bool
    """True if the operator survives until it has written its decision."""


EVENTS = st.builds(
    Event,
    st.integers(0, 30),
    st.integers(0, 400),
    st.integers(0, 4000),
    st.sampled_from([0.0, 0.0, 0.0, 0.01, 0.9]),
    st.sampled_from([False, False, True]),
    st.booleans(),
)
STEPS = st.lists(st.integers(1, 100), min_size=1, max_size=6).map(sorted)


def spec(weights: list[int], least: int, **limits: float) -> Canary:
    """Return a canary."""
    steps = [{"weight": weight, "duration": f"{5 * (at % 3 + 1)}m"} for at, weight in enumerate(weights)]
    analysis = {**(limits or {"errorRate": 0.05, "ttftP95": 2}), "minRequests": least}
    return Canary.model_validate({"service": "s", "model": "m", "steps": steps, "analysis": analysis})


class History:
    """Course of a canary."""

    def __init__(self, canary: Canary) -> None:
        self.canary = canary
        self.now = NOW
        self.mine = self.others = Tally()
        self.status = move(canary, None, self.observed(), self.now).status

    def observed(self) -> CanaryObservation:
        """Return the metrics that decide about the canary."""
        return CanaryObservation(self.mine, self.others, BackendState.OPEN)

    def live(self, event: Event) -> CanaryStatus:
        """Let it happen. Returns what was decided."""
        self.now += timedelta(minutes=event.minutes)
        mine = event.mine if self.status.weight else 0
        bucket, errors = 30 if event.slow else 10, round(mine * event.errors)
        self.mine += tally(mine, errors, bucket)
        self.others += tally(event.others, 0, 10)
        # As the next operator reads it.
        before = canary_before({"canary": self.status.model_dump(mode="json", by_alias=True)})
        assert before == self.status
        found = move(self.canary, before, self.observed(), self.now)
        if event.written:
            self.status = found.status
            if found.moved:
                self.mine = self.others = Tally()
        return found.status


def tally(number: int, errors: int, bucket: int) -> Tally:
    """So many answers, each as long."""
    good = Histogram({bucket: number - errors} if number > errors else {})
    return Tally(number, number, errors, good, good)


@given(STEPS, st.integers(1, 300), st.lists(EVENTS, max_size=40))
def test_canary_advances_one_step_only_after_duration_and_min_requests(
    weights: list[int], least: int, events: list[Event]
) -> None:
    history = History(spec(weights, least))
    assert (history.status.step, history.status.weight) == (1, weights[0])
    for event in events:
        before = history.status
        mine, others = history.mine, history.others
        found = history.live(event)
        step = history.canary.steps[before.step - 1]
        if (found.phase, found.step) == (before.phase, before.step):
            assert found.weight == before.weight
            continue
        assert before.phase is CanaryPhase.PROGRESSING, "what has ended stays"
        if found.phase is CanaryPhase.ROLLED_BACK:
            assert (found.step, found.weight) == (before.step, 0)
            assert "where the others have" in found.message
            continue
        since = datetime.fromisoformat(before.start_time)
        assert history.now - since >= parse_duration(step.duration)
        assert mine.answered + event.mine >= least
        assert others.answered + event.others >= least or step.weight == 100
        if found.phase is CanaryPhase.PROMOTED:
            assert (found.step, found.weight) == (len(weights), weights[-1])
        else:
            assert (found.step, found.weight) == (before.step + 1, weights[before.step])


@given(STEPS, st.lists(EVENTS, max_size=40))
def test_canary_without_errors_or_slow_answers_is_never_rolled_back(
    weights: list[int], events: list[Event]
) -> None:
    history = History(spec(weights, 10))
    for event in events:
        good = Event(event.minutes, event.mine, event.others, 0.0, False, event.written)
        assert history.live(good).phase is not CanaryPhase.ROLLED_BACK


@given(STEPS, st.lists(EVENTS, max_size=10), st.integers(50, 400), st.integers(200, 4000))
def test_canary_with_many_errors_is_rolled_back_after_any_history(
    weights: list[int], events: list[Event], mine: int, others: int
) -> None:
    history = History(spec(weights, 10_000))
    for event in events:
        history.live(event)
    for _ in range(40):
        history.live(Event(1, mine, others, 0.9, False, True))
    assert (history.status.phase, history.status.weight) == (CanaryPhase.ROLLED_BACK, 0)


@given(STEPS, st.integers(1, 300))
def test_canary_with_enough_good_requests_is_promoted(weights: list[int], least: int) -> None:
    history = History(spec(weights, least))
    for _ in weights:
        assert history.status.phase is CanaryPhase.PROGRESSING
        history.live(Event(15, least, least, 0.0, False, True))
    assert history.status.phase is CanaryPhase.PROMOTED


@given(
    st.one_of(STEPS, STEPS.map(lambda weights: [*weights, 100])),
    st.integers(1, 300),
    st.sampled_from(["errorRate", "ttftP95", "latencyP99"]),
    st.floats(0, 0.99),
    st.lists(EVENTS, max_size=40),
)
def test_canary_with_only_errors_in_last_step_is_never_promoted(
    weights: list[int], least: int, limit: str, most: float, events: list[Event]
) -> None:
    limits = {limit: 0.9 if limit == "errorRate" else 100, "maxErrorRate": most}
    history = History(spec(weights, least, **limits))
    for event in events:
        errors = 1.0 if history.status.step == len(weights) else event.errors
        found = history.live(replace(event, errors=errors))
        assert found.phase is not CanaryPhase.PROMOTED
