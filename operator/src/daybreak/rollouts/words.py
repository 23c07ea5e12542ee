"""Effects of a rollout on the conditions of a workload."""

from daybreak.api.common.conditions import Reason, ShortCondition
from daybreak.api.gates.rollout import RolloutPhase
from daybreak.rollouts.history import History
from daybreak.rollouts.machine import UNDER_WAY, RolloutState
from daybreak.rollouts.record import number

_REASONS = {
    RolloutPhase.BLOCKED: Reason.ROLLOUT_BLOCKED,
    RolloutPhase.ROLLING_BACK: Reason.ROLLED_BACK,
    RolloutPhase.ROLLED_BACK: Reason.ROLLED_BACK,
}
_WAITS = {RolloutPhase.PAUSED: Reason.PAUSED, RolloutPhase.PREPARING: Reason.FILLING_CACHE}


def stalled(history: History, state: RolloutState, report: ShortCondition) -> ShortCondition:
    """Return `Stalled`: the requested revision does not run, and needs action by a user."""
    if state.phase is RolloutPhase.FAILED:
        # A problem of the running pods is more specific, if one is known.
        return report if report[0] == "True" else ("True", Reason.ROLLOUT_FAILED, _failed(history, state))
    if state.phase not in _REASONS:
        return report
    reported = f"revision {_desired_number(history)} is not started: {state.message}"
    if state.failed_revision is not None:
        reported = _rolled_back(history, state)
    elif state.target_revision is None:
        reported = state.message
    also = f"; {report[2]}" if report[0] == "True" and state.phase is not RolloutPhase.ROLLING_BACK else ""
    return "True", _REASONS[state.phase], f"{reported}{also}"


def reconciling(history: History, state: RolloutState, report: ShortCondition) -> ShortCondition:
    """Return `Reconciling`: a rollout in progress, with its strategy and the reason for it."""
    if (waits := _WAITS.get(state.phase)) is not None:
        return "True", waits, f"revision {_desired_number(history)} waits: {state.message}{_road(state)}"
    if state.phase not in UNDER_WAY or state.strategy is None:
        return report
    comes = number(state.target_revision or state.current_revision, history.revisions)
    doing = f"; {report[2]}" if report[0] == "True" else ""
    return (
        "True",
        Reason.UPDATING,
        f"revision {comes} is rolled out by {state.strategy} ({state.reason}){doing}",
    )


def _road(state: RolloutState) -> str:
    """Return the strategy that a waiting revision is expected to use, as a message."""
    return f"; it would be rolled out by {state.strategy} ({state.reason})" if state.strategy else ""


def _desired_number(history: History) -> int:
    return history.desired.number if history.desired is not None else 0


def _failed(history: History, state: RolloutState) -> str:
    return f"revision {number(state.current_revision, history.revisions)} could not start: {state.message}"


def _rolled_back(history: History, state: RolloutState) -> str:
    failed, now = (
        number(name, history.revisions) for name in (state.failed_revision, state.last_successful_revision)
    )
    runs = "runs again" if state.phase is RolloutPhase.ROLLED_BACK else "is being restored"
    return (
        f"revision {failed} could not start, and revision {now} {runs}: {state.message}; change the spec "
        "to retry at once"
    )
