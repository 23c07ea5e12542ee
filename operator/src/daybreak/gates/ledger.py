"""Accelerator-seconds of a workload: awake, waking, saved by sleep, and contended while others waited."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from daybreak.api.common.unstructured import parse_time, written
from daybreak.api.gates.savings_status import SavingsStatus


@dataclass(frozen=True)
class Accelerators:
    """Accelerators that a workload holds, and that it has released, at one time."""

    held: int = 0
    """Accelerators of models that are awake or going to sleep."""
    waking: int = 0
    """Accelerators of waking models."""
    given_back: int = 0
    """Accelerators that sleep has released."""
    waited_for: int = 0
    """Part of `held` for which other workloads wait."""


def count(before: SavingsStatus | None, now: Accelerators, moment: datetime) -> SavingsStatus:
    """Return the sums at a time.

    The sums stay unchanged while the accelerators do, so that time alone causes no write.
    """
    if before is None:
        return _noted(SavingsStatus(start_time=written(moment), update_time=written(moment)), now)
    waited_for = before.contended or 0
    if now == Accelerators(before.awake, before.waking, before.saved, waited_for):
        return before
    return _noted(counted(before, moment), now)


def counted(before: SavingsStatus, moment: datetime) -> SavingsStatus:
    """Return the sums up to a time."""
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
    """Return the sums in a status, or None if they are absent or invalid; counting then restarts."""
    try:
        return SavingsStatus.model_validate(status["savings"]) if "savings" in status else None
    except ValidationError:
        return None


def _noted(savings: SavingsStatus, now: Accelerators) -> SavingsStatus:
    noted = {"awake": now.held, "waking": now.waking, "saved": now.given_back}
    return savings.model_copy(update={**noted, "contended": now.waited_for or None})
