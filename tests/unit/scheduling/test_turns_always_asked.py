"""Services that are asked all the time, on fewer accelerators than they are."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.scheduling.nodes import capacity
from daybreak.scheduling.turns import Claim, Turn, turns
from tests.turns_bound import HANDOVER, longest_wait
from tests.unit.llmservice.decide.scenes.services import node

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
DOCS = Path(__file__).parents[3] / "docs" / "sleep.md"


class Play:
    """One GPU's worth of each service, second by second. `came` is when each is asked for the first time."""

    def __init__(self, came: list[int], gpus: int, turn: int, start: int, stream: int) -> None:
        self.gpus, self.turn, self.start, self.stream = gpus, turn, start, stream
        self.since = {f"s{number}": moment for number, moment in enumerate(came)}
        """When the oldest request came that each holds."""
        self.made: dict[str, int] = {}
        """When those made their pods that may, and have found no room."""
        self.first: dict[str, int] = {}
        """Since when those come first that do."""
        self.queued: set[str] = set()
        self.up: dict[str, int] = {}
        """When those with a GPU answer."""
        self.leaves: dict[str, int] = {}
        """When the last stream of those ends whose turn is over."""
        self.down: set[str] = set()
        """Those whose turn is over, and who do not come back yet."""
        self.longest = 0

    def pass_second(self, second: int) -> None:
        """The scheduler takes whose pods are there, the operator looks, and what follows is done."""
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
            [self._claim(name, second) for name in there], [capacity(node("a", gpus=self.gpus))], now
        )
        for name in there:
            self._obey(name, found.get((name, "m"), Turn()), second)

    def _claim(self, name: str, second: int) -> Claim:
        def at(moment: int) -> datetime:
            return NOW + timedelta(seconds=moment)

        claim = Claim(name, "m", "nvidia.com/gpu", at(second), 1, asked=True, busy=True)
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


@settings(max_examples=100, deadline=None)
@given(
    came=st.lists(st.integers(0, 60), min_size=2, max_size=6),
    gpus=st.integers(1, 3),
    turn=st.integers(5, 40),
    start=st.integers(0, 15),
    stream=st.integers(0, 15),
)
def test_each_gets_its_turn(came: list[int], gpus: int, turn: int, start: int, stream: int) -> None:
    play = Play(came, gpus, turn, start, stream)
    for second in range(60 + 2 * len(came) * (turn + start + stream + 10)):
        play.pass_second(second)
    waiting = [second - since for name, since in play.since.items() if name not in play.up]
    longest = timedelta(seconds=max(play.longest, *waiting, 0))
    awake, last = timedelta(seconds=turn + start), timedelta(seconds=stream)
    assert longest <= longest_wait(len(came), gpus, awake, last)


def test_the_documentation_says_so() -> None:
    text = " ".join(DOCS.read_text().split())
    said = re.search(r"its own last stream and one turn of each of the others: .+? and (\d+) s ", text)
    assert said is not None
    assert timedelta(seconds=int(said.group(1))) == HANDOVER
