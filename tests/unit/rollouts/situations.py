"""Situations for the tests of rollouts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from daybreak.rollouts.machine import RolloutState, Situation, Wish, step
from daybreak.rollouts.strategy import Change, Surroundings

START = datetime(2026, 11, 23, 9, tzinfo=UTC)
PODS = Change(pods=True, restarts=True)
ARGUMENTS = Change(pods=False, restarts=True)
ROOMY = Surroundings(serving=True, holds=True, crowded="")
FULL = replace(ROOMY, crowded="no GPU is free")


class Story:
    """Workload whose revision is decided step by step; its objects follow the last decision."""

    def __init__(self, change: Change = PODS, around: Surroundings = FULL) -> None:
        self.now = START
        self.change, self.around = change, around
        self.state: RolloutState | None = None
        self.wish = Wish("one")
        self.known = {"one"}

    def up(self) -> "Story":
        """Let the revision answer."""
        self.step(answers=True)
        return self

    def ask(self, revision: str, **wish: Any) -> RolloutState:
        """Request another revision, as a user does."""
        self.known.add(revision)
        self.wish = replace(self.wish, revision=revision, **wish)
        return self.step(answers=True)

    def step(self, after: float = 1.0, *, serving: bool = True, **observed: Any) -> RolloutState:
        """Let time pass, and decide."""
        self.now += timedelta(seconds=after)
        built = self.state.current_revision if self.state is not None else self.wish.revision
        changes = {name: self.change for name in self.known if name != built}
        situation = Situation(
            revision=built,
            known=self.known,
            changes=observed.pop("changes", changes),
            around=replace(self.around, serving=serving),
            now=self.now,
            **observed,
        )
        self.state = step(self.state, situation, self.wish)
        again = step(self.state, replace(situation, revision=self.state.current_revision), self.wish)
        if self.state.current_revision == built:
            assert again == self.state, "the same input twice gives the same state"
        return self.state
