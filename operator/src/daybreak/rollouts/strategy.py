"""Which strategy a change is rolled out with, and why: pure."""

from dataclasses import dataclass

from daybreak.api.gates.rollout import RolloutStrategy


@dataclass(frozen=True)
class Change:
    """What it takes to come from what runs to another revision."""

    pods: bool
    """Whether it needs new pods, and so another Ray cluster."""
    restarts: bool
    """Whether replicas are started anew."""


@dataclass(frozen=True)
class Surroundings:
    """What a strategy depends on, besides the change."""

    serving: bool
    """Whether requests are answered at present."""
    holds: bool
    """Whether a gateway holds requests while nothing answers."""
    crowded: str | None
    """Why there is no room now for what comes beside what runs, with the numbers; empty: there is. None: that
    cannot be seen, and the scheduler will tell."""
    second: str = "a second Ray cluster"
    """What comes beside what runs, in words."""
    apart: str = ""
    """Why what comes cannot serve beside what runs; empty: it can."""
    misfit: str = ""
    """What of the revision fits on no node; empty: nothing, or nobody has looked."""


@dataclass(frozen=True)
class Road:
    """How a change is rolled out."""

    strategy: RolloutStrategy | None
    """None: it is not begun."""
    reason: str
    """Why so, in one sentence."""


def choose(asked: RolloutStrategy, change: Change, around: Surroundings, *, back: bool) -> Road:
    """The road of a change that restarts replicas of a workload that has answered.

    Args:
        asked: The strategy that the person asks for.
        change: What it takes.
        around: What else counts.
        back: Whether it is the way back to what answered last: that is never refused.
    """
    if asked is RolloutStrategy.IN_PLACE and change.pods and not back:
        return Road(
            None,
            "the change needs new pods, which rollout.strategy InPlace does not make: use Auto, BlueGreen or "
            "Replace, or take it back",
        )
    if not change.pods and asked is not RolloutStrategy.REPLACE:
        return Road(RolloutStrategy.IN_PLACE, "only what Ray Serve is told changes, so the pods stay")
    if not around.holds:
        if asked is RolloutStrategy.REPLACE and not back:
            return Road(
                None,
                "rollout.strategy Replace needs a gateway, which holds requests meanwhile, and this "
                "installation has none: use Auto or BlueGreen",
            )
        return _without_gateway(change)
    if around.misfit and not back and asked is not RolloutStrategy.BLUE_GREEN:
        return Road(None, f"it is not begun, since it fits on no node: {around.misfit}")
    if asked is RolloutStrategy.REPLACE:
        return Road(RolloutStrategy.REPLACE, "rollout.strategy is Replace")
    if not around.serving:
        return Road(RolloutStrategy.REPLACE, f"nothing answers that {around.second} could relieve")
    if around.apart:
        return Road(RolloutStrategy.REPLACE, around.apart)
    if asked is RolloutStrategy.BLUE_GREEN:
        return Road(RolloutStrategy.BLUE_GREEN, "rollout.strategy is BlueGreen")
    if around.crowded:
        return Road(RolloutStrategy.REPLACE, f"no room for {around.second} now: {around.crowded}")
    if around.crowded is None:
        said = f"nodes cannot be seen: unless the scheduler finds room for {around.second}, it is replaced"
        return Road(RolloutStrategy.BLUE_GREEN, said)
    return Road(RolloutStrategy.BLUE_GREEN, f"room is free now for {around.second}")


def _without_gateway(change: Change) -> Road:
    if not change.pods:
        return Road(RolloutStrategy.IN_PLACE, "only what Ray Serve is told changes, so the pods stay")
    return Road(RolloutStrategy.BLUE_GREEN, "without a gateway nobody could hold requests meanwhile")
