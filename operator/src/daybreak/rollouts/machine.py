"""State machine of a rollout: a pure function of the observation, the previous decision and the time.

    Complete ── another revision is requested ──▶ Progressing ── it answers ──▶ Complete
                      │                              │
                      ▼                              ▼ cannot start, or not in time
              Blocked, Paused                   RollingBack ── the previous one answers ──▶ RolledBack
                                                Failed (if no rollback is allowed or possible)

A revision is the content of the Ray cluster. The workload is always built of one
(`RolloutState.current_revision`); this module decides when it is built of another. The decision is kept in
the workload's status and nowhere else.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from daybreak.api.common.moments import Moments
from daybreak.api.gates.rollout import OnFailure, RolloutPhase, RolloutStrategy
from daybreak.rollouts.strategy import Change, ChosenStrategy, Surroundings, choose

SETTLE = timedelta(seconds=10)
"""Time after the start of a revision for which reports may still belong to the previous one."""
ERRORS = timedelta(seconds=60)
"""Time for which a started model may answer with errors only before its revision has failed."""
ENDED = (RolloutPhase.COMPLETE, RolloutPhase.ROLLED_BACK)
UNDER_WAY = (RolloutPhase.PROGRESSING, RolloutPhase.ROLLING_BACK)
_NO_ROAD = ChosenStrategy(None, "")
_NO_RESTART = "nothing is restarted by it"
_NOT_BEGUN = (RolloutPhase.PREPARING, RolloutPhase.BLOCKED, RolloutPhase.PAUSED)
_AT_REST = (*ENDED, *_NOT_BEGUN)


@dataclass(frozen=True)
class Wish:
    """Rollout request of the spec."""

    revision: str
    """The revision that must run."""
    strategy: RolloutStrategy = RolloutStrategy.AUTO
    on_failure: OnFailure = OnFailure.ROLL_BACK
    paused: bool = False
    refused: str = ""
    """Reason why the revision cannot run, so that the current one continues. Empty if it can."""


@dataclass(frozen=True)
class Errors:
    """Errors that a started model returns in place of answers."""

    since: datetime
    """Time of the first error. The model has returned nothing else since."""
    message: str
    """Text of the error."""


@dataclass(frozen=True)
class Situation:
    """Observed state of a workload for a rollout."""

    revision: str
    """The revision that the workload is currently built of."""
    known: Collection[str]
    """Revisions that the workload could be built of."""
    changes: Mapping[str, Change]
    """Change to each other revision, by its name. Revisions without running pods to change are omitted."""
    around: Surroundings
    answers: bool = False
    """True if everything that is awake has answered as that revision."""
    asleep: bool = False
    """True if nothing runs until a request arrives."""
    vacated: bool = False
    """True if the Ray cluster to replace has been deleted."""
    beside: bool = False
    """True if the Ray cluster of the last successful revision serves alongside a second one."""
    no_room: str = ""
    """Message of the scheduler if it cannot place a second Ray cluster. Empty otherwise."""
    stuck: str = ""
    """Reason why that revision cannot start. Empty if no permanent problem is known."""
    errors: Errors | None = None
    """Errors of the model that has returned only errors for the longest time, or None if there is none."""
    preparing: str = ""
    """Preparation for the requested revision before running pods are disturbed. Empty if there is none."""
    filling: bool = False
    """True if the revision waits for its weights, and has requested nothing yet."""
    limit: timedelta = timedelta(minutes=30)
    """Maximum time until the first answer."""
    now: datetime = field(kw_only=True)


@dataclass(frozen=True)
class RolloutState:
    """Last decision, kept in the status, and the start of the next decision."""

    current_revision: str
    """The revision that the workload is built of."""
    phase: RolloutPhase
    strategy: RolloutStrategy | None = None
    reason: str = ""
    target_revision: str | None = None
    """The revision that waits to replace the current one."""
    last_successful_revision: str | None = None
    """The last revision that answered."""
    failed_revision: str | None = None
    """A revision that could not start, and is still requested."""
    message: str = ""
    """Step that the rollout waits for, or reason for its failure."""
    start_time: datetime | None = None
    """Time at which the revision was started, or None while it sleeps."""

    @property
    def replaces(self) -> bool:
        """True if the running pods must be deleted before another revision starts."""
        waits = self.target_revision is not None and self.strategy is RolloutStrategy.REPLACE
        return waits and self.phase in UNDER_WAY

    @property
    def timed(self) -> bool:
        """True if the rollout fails after its deadline. A first revision has no deadline."""
        return self.phase in UNDER_WAY and self.last_successful_revision is not None

    @property
    def falls_back(self) -> bool:
        """True if another revision is tried when the current one cannot start."""
        return (
            self.phase in UNDER_WAY
            and self.last_successful_revision is not None
            and self.last_successful_revision != self.current_revision
        )


def step(before: RolloutState | None, observed: Situation, wish: Wish) -> RolloutState:
    """Return the next decision. The same input twice gives the same state."""
    state = _read(before, observed)
    if state.failed_revision is not None and state.failed_revision != wish.revision:
        # Another revision is requested, and is tried at once.
        state = replace(state, failed_revision=None, message="")
        if state.phase in (RolloutPhase.ROLLED_BACK, RolloutPhase.ROLLING_BACK, RolloutPhase.FAILED):
            ended = state.phase is RolloutPhase.ROLLED_BACK
            state = replace(state, phase=RolloutPhase.COMPLETE if ended else RolloutPhase.PROGRESSING)
    if wish.refused and state.failed_revision is None:
        return _waits(state, state.current_revision, observed, wish, RolloutPhase.BLOCKED, wish.refused)
    goal = (
        wish.revision
        if state.failed_revision is None
        else state.last_successful_revision or state.current_revision
    )
    if goal != state.current_revision:
        return _move(state, goal, observed, wish)
    if state.phase in _NOT_BEGUN:
        # The strategy was that of another revision.
        state = replace(state, strategy=None, reason="")
    return _settle(
        replace(state, target_revision=None) if state.target_revision is not None else state, observed, wish
    )


def look_again(state: RolloutState, observed: Situation) -> timedelta | None:
    """Return the time after which the decision may change without an event, or None."""
    moments = Moments(observed.now)
    if state.timed and state.start_time is not None:
        _wrong(state, observed, moments)
    return moments.look_again


def _read(before: RolloutState | None, observed: Situation) -> RolloutState:
    """Return the previous decision, without revisions that are no longer known."""
    if before is None:
        return RolloutState(observed.revision, RolloutPhase.PROGRESSING)
    answered = before.last_successful_revision if before.last_successful_revision in observed.known else None
    if before.current_revision != observed.revision:
        # The previous content is lost, so the workload is built of the requested revision.
        return RolloutState(observed.revision, RolloutPhase.PROGRESSING, last_successful_revision=answered)
    return replace(before, last_successful_revision=answered)


def _move(state: RolloutState, goal: str, observed: Situation, wish: Wish) -> RolloutState:
    """Return the decision for a change to another revision."""
    back, change = state.failed_revision is not None, observed.changes.get(goal)
    if wish.paused and not back:
        reported = "rollouts are paused: see rollout.paused"
        return _waits(
            state, goal, observed, wish, RolloutPhase.PAUSED, reported, _ahead(state, goal, observed, wish)
        )
    if observed.vacated and state.replaces:
        return _taken(state, goal, observed, state.strategy, state.reason)
    if observed.asleep:
        return _taken(state, goal, observed, None, "it sleeps: the next wake runs it")
    if change is None:
        return _taken(state, goal, observed, None, "nothing runs that could be disturbed")
    if state.replaces and state.target_revision == goal and (back or wish.strategy in _REPLACED):
        # If a second Ray cluster could not be scheduled, the object already contains the requested revision.
        return state
    if not change.restarts:
        return _taken(state, goal, observed, RolloutStrategy.IN_PLACE, _NO_RESTART)
    if state.last_successful_revision is None and not observed.around.serving:
        return _taken(
            state, goal, observed, None, "no revision has answered yet that the rollout could disturb"
        )
    if observed.beside and goal == state.last_successful_revision:
        message = "its Ray cluster still serves and is kept"
        return _taken(state, goal, observed, RolloutStrategy.BLUE_GREEN, message)
    road = choose(wish.strategy, change, observed.around, back=back)
    if road.strategy is None:
        return _waits(state, goal, observed, wish, RolloutPhase.BLOCKED, road.reason)
    if road.strategy is RolloutStrategy.REPLACE:
        if observed.preparing and not back:
            return _waits(state, goal, observed, wish, RolloutPhase.PREPARING, observed.preparing, road)
        return replace(
            state,
            target_revision=goal,
            strategy=road.strategy,
            reason=road.reason,
            phase=_under_way(state),
            message=state.message if back else "",
            start_time=None,
        )
    return _taken(state, goal, observed, road.strategy, road.reason)


_REPLACED = (RolloutStrategy.AUTO, RolloutStrategy.REPLACE)
"""Strategies with which a started replacement continues."""


def _ahead(state: RolloutState, goal: str, observed: Situation, wish: Wish) -> ChosenStrategy:
    """Return the strategy that a waiting revision would currently use, or no strategy."""
    change = observed.changes.get(goal)
    if (
        observed.asleep
        or change is None
        or (state.last_successful_revision is None and not observed.around.serving)
    ):
        return _NO_ROAD
    if not change.restarts:
        return ChosenStrategy(RolloutStrategy.IN_PLACE, _NO_RESTART)
    return choose(wish.strategy, change, observed.around, back=False)


def _waits(
    state: RolloutState,
    goal: str,
    observed: Situation,
    wish: Wish,
    phase: RolloutPhase,
    message: str,
    road: ChosenStrategy = _NO_ROAD,
) -> RolloutState:
    """Return the decision not to start a revision, while the previous one continues to run.

    `road` is the strategy that the rollout would use.
    """
    if state.replaces:
        state = replace(state, phase=RolloutPhase.PROGRESSING, strategy=None, reason="", target_revision=None)
    settled = _settle(state, observed, wish)
    if settled.phase not in _AT_REST or settled.failed_revision is not None:
        return settled
    target = goal if goal != state.current_revision else None
    reason = road.reason if road.strategy is not None else ""
    return replace(
        settled, phase=phase, target_revision=target, message=message, strategy=road.strategy, reason=reason
    )


def _taken(
    state: RolloutState, goal: str, observed: Situation, strategy: RolloutStrategy | None, reason: str
) -> RolloutState:
    """Return the decision to build the workload of a revision from now on."""
    return replace(
        state,
        current_revision=goal,
        target_revision=None,
        phase=_under_way(state),
        strategy=strategy,
        reason=reason,
        message=state.message if state.failed_revision is not None else "",
        start_time=None if observed.asleep else observed.now,
    )


def _under_way(state: RolloutState) -> RolloutPhase:
    return RolloutPhase.PROGRESSING if state.failed_revision is None else RolloutPhase.ROLLING_BACK


def _settle(state: RolloutState, observed: Situation, wish: Wish) -> RolloutState:
    """Return the decision if the requested revision is the running one."""
    if observed.answers:
        phase = RolloutPhase.COMPLETE if state.failed_revision is None else RolloutPhase.ROLLED_BACK
        message = state.message if state.failed_revision is not None else ""
        return replace(state, phase=phase, last_successful_revision=state.current_revision, message=message)
    if state.phase in ENDED:
        # The revision has answered: later problems do not belong to its rollout.
        return state
    if state.phase in _AT_REST:
        answered = state.last_successful_revision == state.current_revision
        phase = RolloutPhase.COMPLETE if answered else RolloutPhase.PROGRESSING
        return replace(state, phase=phase, message="")
    if observed.asleep or observed.filling:
        return replace(state, start_time=None, phase=_under_way(state))
    if state.start_time is None:
        return replace(state, start_time=observed.now, phase=_under_way(state))
    if (
        observed.no_room
        and state.strategy is RolloutStrategy.BLUE_GREEN
        and _may_replace(state, observed, wish)
    ):
        return replace(
            state,
            current_revision=state.failed_revision
            or state.last_successful_revision
            or state.current_revision,
            target_revision=state.current_revision,
            strategy=RolloutStrategy.REPLACE,
            reason=f"{observed.around.second} found no capacity: {observed.no_room}",
            phase=_under_way(state),
            start_time=None,
        )
    wrong = _wrong(state, observed, Moments(observed.now))
    if not wrong:
        return replace(state, phase=_under_way(state), message=state.message if state.failed_revision else "")
    rolls_back = state.failed_revision is None and wish.on_failure is OnFailure.ROLL_BACK and not wish.paused
    if (
        rolls_back
        and state.last_successful_revision is not None
        and state.last_successful_revision != state.current_revision
    ):
        back = replace(
            state, failed_revision=state.current_revision, message=wrong, phase=RolloutPhase.ROLLING_BACK
        )
        return _move(back, state.last_successful_revision, observed, wish)
    if state.phase is RolloutPhase.FAILED:
        return state if state.failed_revision is not None else replace(state, message=wrong)
    report = (
        wrong
        if state.failed_revision is None
        else f"{state.message}; and what answered before cannot start: {wrong}"
    )
    return replace(state, phase=RolloutPhase.FAILED, message=report)


def _may_replace(state: RolloutState, observed: Situation, wish: Wish) -> bool:
    """Return True if a Ray cluster that could not be scheduled alongside another one may replace it."""
    if not observed.around.holds:
        return False
    if state.failed_revision is not None:
        # A rollback is never rejected. Until the capacity is free, the workload counts as built of the failed
        # revision.
        settled = state.start_time is not None and observed.now - state.start_time >= SETTLE
        return (
            settled
            and state.failed_revision in observed.known
            and state.failed_revision != state.current_revision
        )
    old = (
        state.last_successful_revision is not None
        and state.last_successful_revision != state.current_revision
    )
    return old and wish.strategy is RolloutStrategy.AUTO


def _wrong(state: RolloutState, observed: Situation, moments: Moments) -> str:
    """Return why the starting revision has failed. Empty if it has not."""
    assert state.start_time is not None  # noqa: S101 - checked by the caller
    if not moments.reached(state.start_time + SETTLE) or state.last_successful_revision is None:
        return ""
    if observed.stuck:
        return observed.stuck
    in_time = not moments.reached(state.start_time + observed.limit)
    if observed.errors is not None and moments.reached(max(observed.errors.since, state.start_time) + ERRORS):
        lasted = round(ERRORS.total_seconds())
        return f"it has answered with nothing but errors for {lasted} s: {observed.errors.message}"
    return "" if in_time else f"it has not answered within {round(observed.limit.total_seconds())} s"
