"""Constantly busy services, on fewer accelerators than services."""

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import ModelGate, Phase, RoomStatus
from daybreak.api.gates.sleep import SleepDepth
from daybreak.gates.room import first_since, held_since, overdue, room_status
from daybreak.gates.sleep_state import SleepState
from daybreak.gates.traffic import Traffic
from daybreak.scheduling.claim import Claim, Turn
from daybreak.scheduling.fleet import Fleet
from daybreak.scheduling.nodes import capacity
from daybreak.scheduling.turns import turns
from tests.budget import examples
from tests.turns_bound import HANDOVER, longest_wait
from tests.unit.llmservice.decide.scenes.services import node

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
DOCS = Path(__file__).parents[3] / "docs" / "sleep.md"


class Play:
    """Simulation of services with one GPU each, second by second.

    `came` is the second of each service's first request.
    """

    def __init__(self, came: list[int], gpus: int, turn: int, start: int, stream: int) -> None:
        self.gpus, self.turn, self.start, self.stream = gpus, turn, start, stream
        self.since = {f"s{number}": moment for number, moment in enumerate(came)}
        """Arrival second of the oldest held request of each service."""
        self.made: dict[str, int] = {}
        """Second in which services with a turn created their pods, which are not scheduled yet."""
        self.first: dict[str, int] = {}
        """Second since which a service has been first in the queue."""
        self.queued: set[str] = set()
        self.up: dict[str, int] = {}
        """Second in which a service with a GPU answers."""
        self.leaves: dict[str, int] = {}
        """Second in which the last stream ends, for services whose turn is over."""
        self.down: set[str] = set()
        """Services whose turn is over, and which do not wake yet."""
        self.longest = 0

    def pass_second(self, second: int) -> None:
        """Pass one second: the scheduler places pods, the operator decides, and the services follow."""
        for name in [name for name, ends in self.leaves.items() if ends <= second]:
            del self.leaves[name]
            self.down.add(name)
        self.made |= {name: second for name, came in self.since.items() if came == second}
        for name in sorted(self.made):
            if len(self.up) + len(self.leaves) < self.gpus:
                self.longest = max(self.longest, second - self.since[name])
                self.up[name] = second + self.start
                del self.made[name]
        there = [name for name, came in self.since.items() if came <= second]
        now = NOW + timedelta(seconds=second)
        found = turns(
            [self._claim(name, second) for name in there], Fleet([capacity(node("a", gpus=self.gpus))]), now
        )
        for name in there:
            self._obey(name, found.get((name, "m"), Turn()), second)

    def _claim(self, name: str, second: int) -> Claim:
        def at(moment: int) -> datetime:
            return NOW + timedelta(seconds=moment)

        claim = Claim(name, "m", "nvidia.com/gpu", at(second), 1, requested=True, busy=True)
        if name in self.up:
            answers = self.up[name]
            ends = at(answers + self.turn) if answers <= second else None
            return replace(claim, holds={"a": 1}, waits=answers > second, yields_at=ends)
        if name in self.leaves or name in self.down:
            holds = {"a": 1} if name in self.leaves else {}
            return replace(claim, holds=holds, leaving=True, stays_down=True)
        return replace(
            claim,
            waits=True,
            queued=name in self.queued,
            held_since=at(self.since[name]),
            no_room_since=at(self.made[name]) if name in self.made else None,
            first_since=at(self.first[name]) if name in self.first else None,
        )

    def _obey(self, name: str, turn: Turn, second: int) -> None:
        if turn.place == 1:
            self.first.setdefault(name, second)
        elif turn.after or name in self.up:
            self.first.pop(name, None)
        if name in self.up and turn.gives_way_to:
            del self.up[name]
            self.leaves[name] = second + self.stream
            self.since[name] = second
        elif name in self.down and not turn.gives_way_to:
            self.down.discard(name)
            self.made[name] = second
        elif turn.after and name in {*self.made, *self.queued}:
            self.made.pop(name, None)
            self.queued.add(name)
        elif name in self.queued:
            self.queued.discard(name)
            self.made[name] = second


@settings(max_examples=examples(100), deadline=None)
@given(
    came=st.lists(st.integers(0, 60), min_size=2, max_size=6),
    gpus=st.integers(1, 3),
    turn=st.integers(5, 40),
    start=st.integers(0, 15),
    stream=st.integers(0, 15),
)
def test_wait_of_busy_services_is_bounded_for_any_fleet(
    came: list[int], gpus: int, turn: int, start: int, stream: int
) -> None:
    play = Play(came, gpus, turn, start, stream)
    for second in range(60 + 2 * len(came) * (turn + start + stream + 10)):
        play.pass_second(second)
    waiting = [second - since for name, since in play.since.items() if name not in play.up]
    longest = timedelta(seconds=max(play.longest, *waiting, 0))
    awake, last = timedelta(seconds=turn + start), timedelta(seconds=stream)
    assert longest <= longest_wait(len(came), gpus, awake, last)


class Refused(Play):
    """Simulation in which requests are rejected after a maximum hold time, and new ones always follow.

    The state of each service is what its status records.
    """

    def __init__(self, came: list[int], gpus: int, turn: int, hold: int) -> None:
        super().__init__(came, gpus, turn, start=5, stream=5)
        self.hold = hold
        self.woke = dict(self.since)
        self.room: dict[str, RoomStatus | None] = {}
        self.turns_had: Counter[str] = Counter()

    def _claim(self, name: str, second: int) -> Claim:
        claim, gate = super()._claim(name, second), self._gate(name)
        if not claim.waits or name in self.up:
            return claim
        traffic = self._traffic(name, second)
        now = NOW + timedelta(seconds=second)
        return replace(
            claim,
            held_since=held_since(gate, traffic, now),
            first_since=first_since(gate),
            overdue=overdue(gate),
            wake_overdue=second - self.woke[name] >= self.hold,
        )

    def _obey(self, name: str, turn: Turn, second: int) -> None:
        had, was_down = name in self.up, name in self.down
        super()._obey(name, turn, second)
        self.turns_had[name] += had and name not in self.up
        if was_down and name not in self.down:
            self.woke[name] = second
        state = SleepState(Phase.WAKING, NOW, None, GateState.CLOSED, 1)
        if name in self.leaves or name in self.down:
            state = replace(state, asleep=SleepDepth.WORKERS)
        now = NOW + timedelta(seconds=second)
        self.room[name] = room_status(
            self._gate(name), state, turn, self._traffic(name, second), has_room=name in self.up, now=now
        )

    def _traffic(self, name: str, second: int) -> Traffic:
        oldest = min(self.hold, second - self.since[name])
        return Traffic(known=True, held=1, held_for=timedelta(seconds=oldest))

    def _gate(self, name: str) -> ModelGate:
        more: dict[str, Any] = {"state": "Closed", "epoch": 1, "phase": "Waking"}
        return ModelGate(
            name=name,
            phase_transition_time="2026-11-23T12:00:00Z",
            hold_seconds=self.hold,
            accelerator_queue=self.room.get(name),
            **more,
        )


@pytest.mark.parametrize(
    ("came", "gpus", "turn"),
    [([0, 1, 2, 3, 4], 1, 10), ([0, 0, 0], 1, 5), ([0, 60, 3, 3, 40, 20], 2, 12)],
)
def test_wait_is_bounded_if_hold_limit_is_shorter_than_longest_wait(
    came: list[int], gpus: int, turn: int
) -> None:
    """The maximum wait is one turn of each other service; requests are held for one turn."""
    one_turn = turn + 5 + 5 + round(HANDOVER.total_seconds())
    play = Refused(came, gpus, turn, hold=one_turn)
    for second in range(60 + 3 * len(came) * one_turn):
        play.pass_second(second)
    waiting = [second - since for name, since in play.since.items() if name not in play.up]
    longest = timedelta(seconds=max(play.longest, *waiting, 0))
    awake, last = timedelta(seconds=turn + 5), timedelta(seconds=5)
    assert longest <= longest_wait(len(came), gpus, awake, last)


def test_every_service_runs_repeatedly_if_hold_time_is_short() -> None:
    """If requests are held for half a turn, the first service lets the others try in between."""
    play = Refused([0, 1, 2, 3, 4], 1, 40, hold=30)
    for second in range(900):
        play.pass_second(second)
    assert len(play.turns_had) == 5
    assert min(play.turns_had.values()) >= 2, play.turns_had


class Ranked(Play):
    """Simulation in which some services have a higher priority."""

    def __init__(self, above: int, below: int) -> None:
        super().__init__([0] * (above + below), gpus=1, turn=10, start=2, stream=2)
        self.above = {f"s{number}" for number in range(above)}
        self.had: set[str] = set()

    def _claim(self, name: str, second: int) -> Claim:
        self.had |= self.up.keys()
        return replace(super()._claim(name, second), priority=int(name in self.above))


def test_priorities_do_not_age_as_documented() -> None:
    always = Ranked(above=2, below=2)
    for second in range(400):
        always.pass_second(second)
    assert always.had == always.above, "those of the lower one never have it"
    alone = Ranked(above=1, below=2)
    for second in range(200):
        alone.pass_second(second)
    assert alone.had == {"s0", "s1", "s2"}, "one alone waits while others have their turn"
    text = " ".join(DOCS.read_text().split())
    assert "Several such services of the same `sleep.priority`" in text
    assert "**Priorities do not age**" in text


def test_documented_handover_time_equals_constant() -> None:
    text = " ".join(DOCS.read_text().split())
    report = re.search(r"A turn is the start, .+? and a handover of (\d+) s:", text)
    assert report is not None
    assert timedelta(seconds=int(report.group(1))) == HANDOVER
