"""How far a change is: a pure function of what is seen, what was decided before, and the time.

    Complete ── another revision is asked for ──▶ Progressing ── it answers ──▶ Complete
                      │                              │
                      ▼                              ▼ cannot start, or not in time
              Blocked, Paused                   RollingBack ── the one before answers ──▶ RolledBack
                                                Failed (where nothing may be, or can be, rolled back)

A revision is what the Ray cluster is made of. The workload is always built of one (`RolloutState.revision`):
this decides when it is built of another. What was decided is kept in the workload's status and nowhere else.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from daybreak.api.common.moments import Moments
from daybreak.api.gates.rollout import OnFailure, RolloutPhase, RolloutStrategy
from daybreak.rollouts.strategy import Change, Road, Surroundings, choose

SETTLE = timedelta(seconds=10)
"""How long after a revision was taken what is told may still be of the one before."""
ERRORS = timedelta(seconds=60)
"""For how long a model that has started may answer with errors alone before its revision has failed."""
ENDED = (RolloutPhase.COMPLETE, RolloutPhase.ROLLED_BACK)
UNDER_WAY = (RolloutPhase.PROGRESSING, RolloutPhase.ROLLING_BACK)
_NO_ROAD = Road(None, "")
_NO_RESTART = "nothing is restarted by it"
_NOT_BEGUN = (RolloutPhase.PREPARING, RolloutPhase.BLOCKED, RolloutPhase.PAUSED)
_AT_REST = (*ENDED, *_NOT_BEGUN)


@dataclass(frozen=True)
class Wish:
    """What the person wants."""

    revision: str
    """The revision that is to run."""
    strategy: RolloutStrategy = RolloutStrategy.AUTO
    on_failure: OnFailure = OnFailure.ROLL_BACK
    paused: bool = False
    refused: str = ""
    """Why it cannot be; empty: it can. What runs goes on then."""


@dataclass(frozen=True)
class Errors:
    """What a model that has started says in place of answers."""

    since: datetime
    """When it began to; it has said nothing else since."""
    said: str
    """Its words."""


@dataclass(frozen=True)
class Situation:
    """How the workload is."""

    revision: str
    """The one that it is built of at present."""
    known: Collection[str]
    """Revisions that it could be built of."""
    changes: Mapping[str, Change]
    """What it takes to come to another revision; without those for which nothing runs that could change."""
    around: Surroundings
    answers: bool = False
    """Whether everything that is awake has answered as that revision."""
    asleep: bool = False
    """Whether nothing runs until somebody asks."""
    vacated: bool = False
    """Whether the Ray cluster has gone that was to be replaced."""
    beside: bool = False
    """Whether the Ray cluster of the last revision that answered serves beside a second one."""
    no_room: str = ""
    """The scheduler's words, where a second Ray cluster has found no room; empty: it has, or is none."""
    stuck: str = ""
    """Why that revision cannot start; empty: nothing is known to be in its way for good."""
    errors: Errors | None = None
    """Of the model of that revision that has answered with nothing but errors for longest; None: none has."""
    preparing: str = ""
    """What is to be done for the revision that is asked for before what runs is disturbed; empty: nothing."""
    filling: bool = False
    """Whether the revision waits for its weights, and has asked for nothing yet."""
    limit: timedelta = timedelta(minutes=30)
    """How long it may take to answer."""
    now: datetime = field(kw_only=True)


@dataclass(frozen=True)
class RolloutState:
    """What was decided: kept in the status, and the start of the next decision."""

    current_revision: str
    """The workload is built of it."""
    phase: RolloutPhase
    strategy: RolloutStrategy | None = None
    reason: str = ""
    target_revision: str | None = None
    """The revision that waits to take its place."""
    last_successful_revision: str | None = None
    """The last one that answered."""
    failed_revision: str | None = None
    """One that could not start, and is asked for still."""
    message: str = ""
    """What it waits for, or why it failed."""
    start_time: datetime | None = None
    """When it was taken; None while it sleeps."""

    @property
    def replaces(self) -> bool:
        """Whether what runs is to go before another revision comes."""
        waits = self.target_revision is not None and self.strategy is RolloutStrategy.REPLACE
        return waits and self.phase in UNDER_WAY

    @property
    def timed(self) -> bool:
        """Whether it fails when it takes too long: a first revision takes the time that it takes."""
        return self.phase in UNDER_WAY and self.last_successful_revision is not None

    @property
    def falls_back(self) -> bool:
        """Whether something else is tried when what starts at present cannot."""
        return (
            self.phase in UNDER_WAY
            and self.last_successful_revision is not None
            and self.last_successful_revision != self.current_revision
        )


def step(before: RolloutState | None, seen: Situation, wish: Wish) -> RolloutState:
    """The next decision. The same input twice gives the same state: nothing changes by itself."""
    state = _read(before, seen)
    if state.failed_revision is not None and state.failed_revision != wish.revision:
        # Another one is asked for: it is tried at once.
        state = replace(state, failed_revision=None, message="")
        if state.phase in (RolloutPhase.ROLLED_BACK, RolloutPhase.ROLLING_BACK, RolloutPhase.FAILED):
            ended = state.phase is RolloutPhase.ROLLED_BACK
            state = replace(state, phase=RolloutPhase.COMPLETE if ended else RolloutPhase.PROGRESSING)
    if wish.refused and state.failed_revision is None:
        return _waits(state, state.current_revision, seen, wish, RolloutPhase.BLOCKED, wish.refused)
    goal = (
        wish.revision
        if state.failed_revision is None
        else state.last_successful_revision or state.current_revision
    )
    if goal != state.current_revision:
        return _move(state, goal, seen, wish)
    if state.phase in _NOT_BEGUN:
        # Another one would have been run by that.
        state = replace(state, strategy=None, reason="")
    return _settle(
        replace(state, target_revision=None) if state.target_revision is not None else state, seen, wish
    )


def look_again(state: RolloutState, seen: Situation) -> timedelta | None:
    """When time alone may change what has just been decided; None: never."""
    moments = Moments(seen.now)
    if state.timed and state.start_time is not None:
        _wrong(state, seen, moments)
    return moments.look_again


def _read(before: RolloutState | None, seen: Situation) -> RolloutState:
    """What was decided before, without revisions that are not known any more."""
    if before is None:
        return RolloutState(seen.revision, RolloutPhase.PROGRESSING)
    answered = before.last_successful_revision if before.last_successful_revision in seen.known else None
    if before.current_revision != seen.revision:
        # Its content is lost, so the workload is built of what is asked for.
        return RolloutState(seen.revision, RolloutPhase.PROGRESSING, last_successful_revision=answered)
    return replace(before, last_successful_revision=answered)


def _move(state: RolloutState, goal: str, seen: Situation, wish: Wish) -> RolloutState:
    """Another revision is to run."""
    back, change = state.failed_revision is not None, seen.changes.get(goal)
    if wish.paused and not back:
        told = "rollouts are paused: see rollout.paused"
        return _waits(state, goal, seen, wish, RolloutPhase.PAUSED, told, _ahead(state, goal, seen, wish))
    if seen.vacated and state.replaces:
        return _taken(state, goal, seen, state.strategy, state.reason)
    if seen.asleep:
        return _taken(state, goal, seen, None, "it sleeps: the next wake runs it")
    if change is None:
        return _taken(state, goal, seen, None, "nothing runs that could be disturbed")
    if state.replaces and state.target_revision == goal and (back or wish.strategy in _REPLACED):
        # Where a second Ray cluster has found no room, what is asked for stands in the object already.
        return state
    if not change.restarts:
        return _taken(state, goal, seen, RolloutStrategy.IN_PLACE, _NO_RESTART)
    if state.last_successful_revision is None and not seen.around.serving:
        return _taken(state, goal, seen, None, "nothing has answered yet that could be disturbed")
    if seen.beside and goal == state.last_successful_revision:
        said = "what it is made of serves still, and goes on"
        return _taken(state, goal, seen, RolloutStrategy.BLUE_GREEN, said)
    road = choose(wish.strategy, change, seen.around, back=back)
    if road.strategy is None:
        return _waits(state, goal, seen, wish, RolloutPhase.BLOCKED, road.reason)
    if road.strategy is RolloutStrategy.REPLACE:
        if seen.preparing and not back:
            return _waits(state, goal, seen, wish, RolloutPhase.PREPARING, seen.preparing, road)
        return replace(
            state,
            target_revision=goal,
            strategy=road.strategy,
            reason=road.reason,
            phase=_under_way(state),
            message=state.message if back else "",
            start_time=None,
        )
    return _taken(state, goal, seen, road.strategy, road.reason)


_REPLACED = (RolloutStrategy.AUTO, RolloutStrategy.REPLACE)
"""Strategies with which a replacement that was begun goes on."""


def _ahead(state: RolloutState, goal: str, seen: Situation, wish: Wish) -> Road:
    """How a revision that waits would be run at this moment; no strategy: without one, or not at all."""
    change = seen.changes.get(goal)
    if seen.asleep or change is None or (state.last_successful_revision is None and not seen.around.serving):
        return _NO_ROAD
    if not change.restarts:
        return Road(RolloutStrategy.IN_PLACE, _NO_RESTART)
    return choose(wish.strategy, change, seen.around, back=False)


def _waits(
    state: RolloutState,
    goal: str,
    seen: Situation,
    wish: Wish,
    phase: RolloutPhase,
    said: str,
    road: Road = _NO_ROAD,
) -> RolloutState:
    """The revision is not begun, and what ran before goes on. It says by which `road` it would be run."""
    if state.replaces:
        state = replace(state, phase=RolloutPhase.PROGRESSING, strategy=None, reason="", target_revision=None)
    settled = _settle(state, seen, wish)
    if settled.phase not in _AT_REST or settled.failed_revision is not None:
        return settled
    target = goal if goal != state.current_revision else None
    reason = road.reason if road.strategy is not None else ""
    return replace(
        settled, phase=phase, target_revision=target, message=said, strategy=road.strategy, reason=reason
    )


def _taken(
    state: RolloutState, goal: str, seen: Situation, strategy: RolloutStrategy | None, reason: str
) -> RolloutState:
    """The workload is built of it from now on."""
    return replace(
        state,
        current_revision=goal,
        target_revision=None,
        phase=_under_way(state),
        strategy=strategy,
        reason=reason,
        message=state.message if state.failed_revision is not None else "",
        start_time=None if seen.asleep else seen.now,
    )


def _under_way(state: RolloutState) -> RolloutPhase:
    return RolloutPhase.PROGRESSING if state.failed_revision is None else RolloutPhase.ROLLING_BACK


def _settle(state: RolloutState, seen: Situation, wish: Wish) -> RolloutState:
    """The revision that runs is the one that is to run."""
    if seen.answers:
        phase = RolloutPhase.COMPLETE if state.failed_revision is None else RolloutPhase.ROLLED_BACK
        message = state.message if state.failed_revision is not None else ""
        return replace(state, phase=phase, last_successful_revision=state.current_revision, message=message)
    if state.phase in ENDED:
        # It has answered: what happens to it from then on is not of its rollout.
        return state
    if state.phase in _AT_REST:
        answered = state.last_successful_revision == state.current_revision
        phase = RolloutPhase.COMPLETE if answered else RolloutPhase.PROGRESSING
        return replace(state, phase=phase, message="")
    if seen.asleep or seen.filling:
        return replace(state, start_time=None, phase=_under_way(state))
    if state.start_time is None:
        return replace(state, start_time=seen.now, phase=_under_way(state))
    if seen.no_room and state.strategy is RolloutStrategy.BLUE_GREEN and _may_replace(state, seen, wish):
        return replace(
            state,
            current_revision=state.failed_revision
            or state.last_successful_revision
            or state.current_revision,
            target_revision=state.current_revision,
            strategy=RolloutStrategy.REPLACE,
            reason=f"{seen.around.second} found no room: {seen.no_room}",
            phase=_under_way(state),
            start_time=None,
        )
    wrong = _wrong(state, seen, Moments(seen.now))
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
        return _move(back, state.last_successful_revision, seen, wish)
    if state.phase is RolloutPhase.FAILED:
        return state if state.failed_revision is not None else replace(state, message=wrong)
    said = (
        wrong
        if state.failed_revision is None
        else f"{state.message}; and what answered before cannot start: {wrong}"
    )
    return replace(state, phase=RolloutPhase.FAILED, message=said)


def _may_replace(state: RolloutState, seen: Situation, wish: Wish) -> bool:
    """Whether a Ray cluster that has found no room beside another one may take its place."""
    if not seen.around.holds:
        return False
    if state.failed_revision is not None:
        # The way back is never refused. Until the place is free, it counts as built of what has failed.
        settled = state.start_time is not None and seen.now - state.start_time >= SETTLE
        return (
            settled
            and state.failed_revision in seen.known
            and state.failed_revision != state.current_revision
        )
    old = (
        state.last_successful_revision is not None
        and state.last_successful_revision != state.current_revision
    )
    return old and wish.strategy is RolloutStrategy.AUTO


def _wrong(state: RolloutState, seen: Situation, moments: Moments) -> str:
    """Why the revision that starts has failed; empty when it has not."""
    assert state.start_time is not None  # noqa: S101 - checked by the caller
    if not moments.reached(state.start_time + SETTLE) or state.last_successful_revision is None:
        return ""
    if seen.stuck:
        return seen.stuck
    in_time = not moments.reached(state.start_time + seen.limit)
    if seen.errors is not None and moments.reached(max(seen.errors.since, state.start_time) + ERRORS):
        lasted = round(ERRORS.total_seconds())
        return f"it has answered with nothing but errors for {lasted} s: {seen.errors.said}"
    return "" if in_time else f"it has not answered within {round(seen.limit.total_seconds())} s"
