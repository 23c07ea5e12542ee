"""Selection of a rollout's strategy, with its reason. Pure."""

from dataclasses import dataclass

from daybreak.api.gates.rollout import RolloutStrategy


@dataclass(frozen=True)
class Change:
    """Effects of a change from the running revision to another one."""

    pods: bool
    """True if the change needs new pods, and therefore another Ray cluster."""
    restarts: bool
    """True if replicas restart."""


@dataclass(frozen=True)
class Surroundings:
    """Environment of a rollout: the facts besides the change that determine the strategy."""

    serving: bool
    """True if requests are currently answered."""
    holds: bool
    """True if a gateway holds requests while no model answers."""
    crowded: str | None
    """Reason why additional pods currently have no capacity, with the numbers. Empty if they have.

    None if the operator cannot determine it, so that only the scheduler can decide.
    """
    second: str = "a second Ray cluster"
    """Noun phrase for messages: the objects that would run alongside the current ones."""
    apart: str = ""
    """Reason why new pods cannot serve alongside the running ones. Empty if they can."""
    misfit: str = ""
    """Pods of the revision that fit on no node, as a message. Empty if all fit, or if not checked."""


@dataclass(frozen=True)
class ChosenStrategy:
    """Chosen strategy of a rollout."""

    strategy: RolloutStrategy | None
    """The strategy, or None if the rollout is not started."""
    reason: str
    """Reason for the choice, in one sentence."""


def choose(requested: RolloutStrategy, change: Change, around: Surroundings, *, back: bool) -> ChosenStrategy:
    """Return the strategy for a change that restarts replicas of a workload that has answered.

    Args:
        requested: The strategy of the spec.
        change: Effects of the change.
        around: Environment of the rollout.
        back: True for a rollback to the last successful revision, which is never rejected.
    """
    if requested is RolloutStrategy.IN_PLACE and change.pods and not back:
        return ChosenStrategy(
            None,
            "the change needs new pods, which rollout.strategy InPlace does not create: use Auto, BlueGreen "
            "or Replace, or revert it",
        )
    if not change.pods and requested is not RolloutStrategy.REPLACE:
        return ChosenStrategy(
            RolloutStrategy.IN_PLACE, "only the Ray Serve configuration changes, so the pods stay"
        )
    if not around.holds:
        if requested is RolloutStrategy.REPLACE and not back:
            return ChosenStrategy(
                None,
                "rollout.strategy Replace needs a gateway, which holds requests during it, and this "
                "installation has none: use Auto or BlueGreen",
            )
        return _without_gateway(change)
    if around.misfit and not back and requested is not RolloutStrategy.BLUE_GREEN:
        return ChosenStrategy(None, f"not started, because no node fits it: {around.misfit}")
    if requested is RolloutStrategy.REPLACE:
        return ChosenStrategy(RolloutStrategy.REPLACE, "rollout.strategy is Replace")
    if not around.serving:
        return ChosenStrategy(RolloutStrategy.REPLACE, f"nothing answers that {around.second} could relieve")
    if around.apart:
        return ChosenStrategy(RolloutStrategy.REPLACE, around.apart)
    if requested is RolloutStrategy.BLUE_GREEN:
        return ChosenStrategy(RolloutStrategy.BLUE_GREEN, "rollout.strategy is BlueGreen")
    if around.crowded:
        return ChosenStrategy(
            RolloutStrategy.REPLACE, f"no capacity for {around.second} now: {around.crowded}"
        )
    if around.crowded is None:
        message = f"nodes cannot be seen: unless the scheduler finds room for {around.second}, it is replaced"
        return ChosenStrategy(RolloutStrategy.BLUE_GREEN, message)
    return ChosenStrategy(RolloutStrategy.BLUE_GREEN, f"capacity is free for {around.second}")


def _without_gateway(change: Change) -> ChosenStrategy:
    if not change.pods:
        return ChosenStrategy(
            RolloutStrategy.IN_PLACE, "only the Ray Serve configuration changes, so the pods stay"
        )
    return ChosenStrategy(
        RolloutStrategy.BLUE_GREEN, "without a gateway, requests cannot be held during the change"
    )
