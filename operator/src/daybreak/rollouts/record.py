"""Conversion of a rollout decision to and from the status."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from daybreak.api.common.unstructured import parse_time, written
from daybreak.api.gates.rollout import RolloutStatus
from daybreak.rollouts.machine import RolloutState
from daybreak.rollouts.revisions import Revision

_WORDS_LIMIT = 4000


def kept(status: Mapping[str, Any]) -> RolloutStatus | None:
    """Return the rollout in the status, or None if it is absent or invalid."""
    try:
        return RolloutStatus.model_validate(status.get("rollout"))
    except ValidationError:
        return None


def state_of(status: Mapping[str, Any]) -> RolloutState | None:
    """Return the previous decision, or None if there is none yet."""
    report = kept(status)
    if report is None:
        return None
    return RolloutState(
        current_revision=report.current_revision,
        phase=report.phase,
        strategy=report.strategy,
        reason=report.reason or "",
        target_revision=report.target_revision,
        last_successful_revision=report.last_successful_revision,
        failed_revision=report.failed_revision,
        message=report.message or "",
        start_time=parse_time(report.start_time) if report.start_time else None,
    )


def rollout_status(state: RolloutState, revisions: Sequence[Revision], limit: timedelta) -> RolloutStatus:
    """Return a decision for the status; `limit` is the maximum duration of the rollout."""
    started = state.start_time
    due = started + limit if started is not None and state.timed else None
    return RolloutStatus(
        phase=state.phase,
        strategy=state.strategy,
        reason=state.reason[:_WORDS_LIMIT] or None,
        current_revision_number=number(state.current_revision, revisions),
        current_revision=state.current_revision,
        target_revision=state.target_revision,
        last_successful_revision=state.last_successful_revision,
        failed_revision=state.failed_revision,
        message=state.message[:_WORDS_LIMIT] or None,
        start_time=written(started) if started is not None else None,
        deadline_time=written(due) if due is not None else None,
    )


def number(name: str | None, revisions: Sequence[Revision]) -> int:
    """Return the number of a revision, or 0 if it is unknown."""
    return next((each.number for each in revisions if each.name == name), 0)
