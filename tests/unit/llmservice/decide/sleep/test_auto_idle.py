"""A service with `afterIdle: Auto`, from its gateways' reports and its measured wakes."""

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

from daybreak.api.gates.idle_status import IdleStatus
from daybreak.gates.traffic import Pause
from daybreak.workloads.observed import GatewayView
from tests.unit.llmservice.decide.scenes.services import CPU_MODEL, HEAD, WORKER, World, manifest, running
from tests.unit.llmservice.decide.scenes.sleeping import LONG, gate, up, view
from tests.unit.llmservice.decision import Decision

AUTO: Any = {"afterIdle": "Auto"}
HOUR = timedelta(hours=1)


def idle(decision: Decision, number: int = 0) -> IdleStatus | None:
    """Return the idle status of a model."""
    assert decision.status.gate is not None
    return decision.status.gate.models[number].idle


def asked_after(pause: timedelta) -> GatewayView:
    """Return the view after a request has ended a pause of the given length."""
    return view(in_flight=1, requested=timedelta(0), pause=Pause(pause, timedelta(0)))


def quiet(since: timedelta) -> GatewayView:
    """Return the view of a service without requests for the given time."""
    return view(idle=since, requested=since)


def a_night(world: World, length: timedelta) -> Decision:
    """Let the service fall asleep, and wake it after a pause of this length."""
    after = timedelta(minutes=15)
    draining = world.step(after=after.total_seconds(), gateway=quiet(after))
    assert gate(draining) == ("Draining", "Closed", None)
    down = world.step()
    assert down.status.sleep_depth is not None
    world.step(
        after=(length - after).total_seconds(), gateway=view(held=1, requested=timedelta(0)), pods=(HEAD,)
    )
    woken = world.step(after=90.0, ray_service=running(world), pods=(HEAD, WORKER), answers={"tiny": True})
    assert gate(woken) == ("Awake", "Open", None)
    return woken


def test_auto_idle_time_shortens_after_long_pauses() -> None:
    world = up(sleep=AUTO)
    for _ in range(9):
        learned = a_night(world, 5 * HOUR)
    found = idle(learned)
    assert found is not None
    assert (found.after_idle, found.recommended_after_idle, found.start_time) == ("1m", "1m", None)
    assert found.break_even_seconds is not None
    assert 90 <= found.break_even_seconds <= 95
    awake = world.step(after=30.0, gateway=quiet(timedelta(seconds=59)))
    assert gate(awake) == ("Awake", "Open", None)
    soon = world.step(after=31.0, gateway=quiet(timedelta(seconds=61)))
    assert gate(soon) == ("Draining", "Closed", None)


def test_learned_idle_time_is_applied_by_immediate_next_decision() -> None:
    """The learning decision uses the previous idle time; another decision follows immediately."""
    world = up(sleep=AUTO)
    pauses = {"pauses": [0.0] * 16 + [20.0]}
    wake = {"depth": "Workers", "startTime": "2026-01-01T00:00:00Z", "seconds": 90, "p50Seconds": 90}
    status = copy.deepcopy(dict(world.observed.status))
    status["gate"]["models"][0] |= {"idle": {**pauses, "afterIdle": "15m"}, "wake": wake}
    world.observed = replace(world.observed, manifest={**world.observed.manifest, "status": status})
    learned = world.step(after=LONG, gateway=quiet(timedelta(minutes=2)))
    assert gate(learned) == ("Awake", "Open", None)
    assert learned.requeue_after == timedelta(0)
    assert gate(world.step()) == ("Draining", "Closed", None)


def test_auto_idle_time_is_fifteen_minutes_before_learning() -> None:
    world = up(sleep=AUTO)
    almost = world.step(after=LONG, gateway=quiet(timedelta(seconds=899)))
    assert gate(almost) == ("Awake", "Open", None)
    assert gate(world.step(gateway=quiet(timedelta(seconds=901)))) == ("Draining", "Closed", None)


def test_status_changes_once_per_ended_pause_and_never_per_request() -> None:
    world = up(sleep=AUTO)
    rest = world.step(gateway=view(in_flight=1, requested=timedelta(0))).status
    for seconds in (1, 30, 50):
        busy = world.step(gateway=quiet(timedelta(seconds=seconds)))
        assert busy.status == rest, "a request changes nothing, and neither does a short pause"
    ended = world.step(gateway=asked_after(5 * timedelta(minutes=1)))
    assert ended.status != rest
    again = view(
        in_flight=2, requested=timedelta(0), pause=Pause(timedelta(seconds=303), timedelta(seconds=3))
    )
    assert world.step(after=3, gateway=again).status == ended.status


def test_idle_status_is_unchanged_during_sleep() -> None:
    world = up(sleep=AUTO)
    world.step(after=LONG, gateway=quiet(timedelta(minutes=15)))
    down = world.step()
    later = world.step(after=3600.0, gateway=quiet(timedelta(minutes=75)), pods=(HEAD,))
    found = idle(down)
    assert found == idle(later)
    assert found is not None
    assert found.start_time is not None


def test_each_model_counts_its_own_pauses() -> None:
    world = World(manifest(CPU_MODEL, {**CPU_MODEL, "name": "other"}, sleep=AUTO), gateway=view())
    both = asked_after(5 * timedelta(minutes=1))
    one = replace(both, traffic={**both.traffic, "other": replace(both.traffic["other"], pause=None)})
    message = world.step(gateway=one)
    tiny, other = idle(message), idle(message, 1)
    assert tiny is not None
    assert other is not None
    assert (sum(tiny.pauses), sum(other.pauses)) == (1, 0)


def test_service_without_sleep_records_no_pauses() -> None:
    world = World(manifest(), gateway=asked_after(HOUR))
    world.step()
    opened = world.step(ray_service=running(world), pods=(HEAD, WORKER), answers={"tiny": True})
    assert gate(opened) == ("Awake", "Open", None)
    assert idle(opened) is None


def test_invalid_spec_keeps_recorded_pauses() -> None:
    world = up(sleep=AUTO)
    known = idle(world.step(gateway=asked_after(HOUR)))
    world.edit(manifest(sleep={"afterIdle": "soon"}))
    assert idle(world.step()) == known
    world.edit(manifest(sleep={"afterIdle": "20m"}))
    found = idle(world.step())
    assert found is not None
    assert known is not None
    assert found.pauses == known.pauses
