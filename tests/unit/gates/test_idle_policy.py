"""Idle time after which a model should sleep."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import ModelGate, Phase, WakeStatus
from daybreak.api.gates.idle_status import IdleStatus
from daybreak.api.gates.sleep import AutoIdle, Sleep, SleepDepth
from daybreak.api.schema.scalars import seconds
from daybreak.gates.idle_policy import DEFAULT_SECONDS, ModelTraffic, idle_status, in_force, recommended
from daybreak.gates.pauses import CLASSES, expected_cost
from daybreak.gates.traffic import Pause, Traffic
from tests.unit.llmservice.decide.scenes.sleep_states import AWAKE, NOW

AUTO = Sleep(after_idle="Auto")
STREAMS = Traffic(known=True, in_flight=1, requested=timedelta(0))
HOUR = 3600


def at(**weights: float) -> list[float]:
    """Return pauses by class: `c3=5` are five of class 3."""
    found = [0.0] * len(CLASSES)
    for name, weight in weights.items():
        found[int(name[1:])] = weight
    return found


def gate(idle: IdleStatus | None) -> ModelGate:
    """Return a gate with this status."""
    return ModelGate(
        name="m",
        state=GateState.OPEN,
        epoch=1,
        hold_seconds=900,
        phase=Phase.AWAKE,
        phase_transition_time="2026-03-02T11:00:00Z",
        idle=idle,
    )


def wakes(took: int) -> WakeStatus:
    """Return a wake status with one wake of the given seconds."""
    return WakeStatus(depth=SleepDepth.WORKERS, start_time="", recent=[took], p50_seconds=took)


def judged(
    idle: IdleStatus | None = None, sleep: Sleep | None = AUTO, wake: WakeStatus | None = None
) -> IdleStatus | None:
    """Return the idle status of a busy model."""
    return idle_status(gate(idle), sleep, AWAKE, AWAKE, ModelTraffic(STREAMS, wake, NOW))


def known(pauses: Sequence[float], wake: int | None = 90, sleep: Sleep = AUTO) -> IdleStatus:
    """Return the idle status that results from these pauses."""
    found = judged(IdleStatus(pauses=list(pauses)), sleep, wakes(wake) if wake is not None else None)
    assert found is not None
    return found


def test_auto_idle_time_is_15_minutes_without_enough_measurements() -> None:
    first = judged()
    assert first is not None
    assert first.after_idle == "15m"
    assert first.reason == "0 pauses of a minute or longer are known, and 8 are needed"
    few, unmeasured = known(at(c0=7)), known(at(c0=20), wake=None)
    assert (few.after_idle, few.recommended_after_idle, few.break_even_seconds) == ("15m", None, 90)
    assert (unmeasured.after_idle, unmeasured.reason) == ("15m", "no wake has been measured yet")


def test_long_pauses_shorten_auto_idle_time_to_one_minute() -> None:
    found = known(at(c16=20))
    assert (found.after_idle, found.recommended_after_idle, found.break_even_seconds) == ("1m", "1m", 90)
    assert found.reason is not None
    assert found.reason.startswith("with wakes of 1m30s")


def test_auto_idle_time_exceeds_frequent_short_pauses() -> None:
    found = known(at(c6=40))
    assert found.after_idle is not None
    assert seconds(found.after_idle) >= CLASSES[7]


def test_auto_idle_time_is_one_minute_if_waits_cost_nothing() -> None:
    careless = Sleep(after_idle="Auto", auto=AutoIdle(wait_cost=0))
    assert known(at(c6=40), sleep=careless).after_idle == "1m"


@pytest.mark.parametrize(("least", "most"), [("2m", "3m"), ("20m", "2h"), ("1s", "5s"), ("7h", "7h")])
def test_auto_idle_time_stays_within_its_bounds(least: str, most: str) -> None:
    sleep = Sleep(after_idle="Auto", auto=AutoIdle(min=least, max=most))
    for pauses in ([], at(c0=20), at(c6=40), at(c16=20), at(c22=20)):
        message = known(pauses, sleep=sleep).after_idle
        assert message is not None
        assert seconds(least) <= seconds(message) <= seconds(most)


def test_auto_idle_time_in_force_is_taken_from_status_within_bounds() -> None:
    assert in_force(AUTO, None).after_idle == "15m"
    assert in_force(AUTO, gate(None)).after_idle == "15m"
    assert in_force(AUTO, gate(IdleStatus(after_idle="3m"))).after_idle == "3m"
    narrow = Sleep(after_idle="Auto", auto=AutoIdle(min="5m", max="10m"))
    assert in_force(narrow, gate(IdleStatus(after_idle="3m"))).after_idle == "5m", "the bounds are of now"
    fixed = Sleep(after_idle="20m")
    assert in_force(fixed, gate(IdleStatus(after_idle="3m"))) is fixed


def test_idle_status_is_unchanged_if_pauses_are_unchanged() -> None:
    first = known(at(c3=9, c12=20))
    assert judged(first, AUTO, wakes(90)) == first


def test_recommended_idle_time_does_not_flap() -> None:
    """A repeated pause more or less, at a point where two idle times have nearly equal cost."""
    auto = AutoIdle()
    even = next(
        (weight for weight in range(1, 400) if recommended(at(c6=weight, c14=40), 90, auto, 900) > HOUR / 6),
        None,
    )
    assert even is not None
    present, changes = float(DEFAULT_SECONDS), 0
    for turn in range(50):
        chosen = recommended(at(c6=even + turn % 2, c14=40), 90, auto, present)
        changes += chosen != present
        present = chosen
    assert changes <= 1


def test_recommended_idle_time_costs_little_more_than_cheapest() -> None:
    pauses = at(c2=9, c9=4, c13=7)
    chosen = recommended(pauses, 60, AutoIdle(), 900)
    costs = [expected_cost(pauses, each, 60 * 11) for each in (*CLASSES[:12], DEFAULT_SECONDS, HOUR)]
    assert expected_cost(pauses, chosen, 60 * 11) <= min(costs) / 0.95


def test_status_recommends_idle_time_if_idle_time_is_fixed() -> None:
    fixed = Sleep(after_idle="20m")
    found = known(at(c16=20), sleep=fixed)
    assert (found.after_idle, found.recommended_after_idle) == (None, "1m")
    assert judged(None, fixed) is None, "nothing is known"
    assert judged(IdleStatus(pauses=[1.0]), None) is None, "it never sleeps"


def test_ended_pause_updates_idle_time() -> None:
    ended = Traffic(known=True, held=1, requested=timedelta(0), pause=Pause(timedelta(hours=3), timedelta(0)))
    nearly = IdleStatus(pauses=at(c15=8), after_idle="15m")
    found = idle_status(gate(nearly), AUTO, AWAKE, AWAKE, ModelTraffic(ended, wakes(90), NOW))
    assert found is not None
    assert sum(found.pauses) > 8
    assert found.after_idle == "1m"
