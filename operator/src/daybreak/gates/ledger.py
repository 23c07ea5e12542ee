"""Accelerator seconds of a workload: held, spent on waking, given back, and held while others waited."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from daybreak.api.common.unstructured import parse_time, written
from daybreak.api.gates.savings_status import SavingsStatus


@dataclass(frozen=True)
class Accelerators:
    """What a workload holds, and does not hold, at one moment."""

    held: int = 0
    """By models that are awake, or on their way to sleep."""
    waking: int = 0
    """By models on the way up."""
    given_back: int = 0
    """Not held, because of sleep."""
    waited_for: int = 0
    """Of those that are held awake: what others wait for."""


def count(before: SavingsStatus | None, now: Accelerators, moment: datetime) -> SavingsStatus:
    """The sums after a look at a moment. As long as nothing has changed they are those of before, so that
    time alone writes nothing."""
    if before is None:
        return _noted(SavingsStatus(start_time=written(moment), update_time=written(moment)), now)
    waited_for = before.contended or 0
    if now == Accelerators(before.awake, before.waking, before.saved, waited_for):
        return before
    return _noted(counted(before, moment), now)


def counted(before: SavingsStatus, moment: datetime) -> SavingsStatus:
    """The sums up to a moment."""
    waited_for = before.contended_seconds or 0.0
    passed = max(0.0, (moment - (parse_time(before.update_time) or moment)).total_seconds())
    return before.model_copy(
        update={
            "update_time": written(moment),
            "awake_seconds": round(before.awake_seconds + passed * before.awake, 1),
            "waking_seconds": round(before.waking_seconds + passed * before.waking, 1),
            "saved_seconds": round(before.saved_seconds + passed * before.saved, 1),
            "contended_seconds": round(waited_for + passed * (before.contended or 0), 1) or None,
        }
    )


def savings_before(status: Mapping[str, Any]) -> SavingsStatus | None:
    """The sums as a status says them; None when it does not, or not in their form: then they begin anew."""
    try:
        return SavingsStatus.model_validate(status["savings"]) if "savings" in status else None
    except ValidationError:
        return None


def _noted(savings: SavingsStatus, now: Accelerators) -> SavingsStatus:
    noted = {"awake": now.held, "waking": now.waking, "saved": now.given_back}
    return savings.model_copy(update={**noted, "contended": now.waited_for or None})
