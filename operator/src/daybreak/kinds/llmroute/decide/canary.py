"""Next step of a canary: a pure function of its position, the counted results and the time.

A canary advances by one step at a time, when the step's duration has passed and enough requests have been
answered. As soon as it is worse than the others beyond noise, or cannot start, it receives no more requests.
The status records its position.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from daybreak.api.common.unstructured import Manifest, parse_time, written
from daybreak.api.llmroute.canary import Canary, CanaryBaseline, CanaryPhase, CanaryStatus
from daybreak.api.llmroute.matches import RouteBackend
from daybreak.api.llmroute.status import BackendState
from daybreak.api.schema.scalars import parse_duration
from daybreak.kinds.llmroute.decide.compare import has_too_many_errors, worse
from daybreak.protocol.tallies import Histogram, Tally


@dataclass(frozen=True)
class CanaryObservation:
    """Observation by which a canary is judged."""

    canary: Tally
    """Results of the canary since its step began."""
    stable: Tally
    """Combined results of the other backends."""
    state: BackendState
    """State of the canary's backend."""
    skipped: bool = False
    """True if the canary receives no requests while it sleeps."""


@dataclass(frozen=True)
class Move:
    """Position of a canary."""

    status: CanaryStatus
    moved: bool
    """True if the canary has just reached this position, so that its counts restart."""
    due: datetime | None = None
    """End of the step's duration. None if it has passed, or if no step is in progress."""


def canary_before(status: Manifest) -> CanaryStatus | None:
    """Return the position of a canary in the status, or None if there is no valid one."""
    try:
        return CanaryStatus.model_validate(status.get("canary"))
    except ValidationError:
        return None


def move(spec: Canary, before: CanaryStatus | None, observed: CanaryObservation, now: datetime) -> Move:
    """Return the new position of a canary.

    Args:
        spec: The canary in the route's spec.
        before: Previous position.
        observed: Observation of the previous step.
        now: The time.
    """
    if before is None or _which(before) != _which(spec):
        return _enter(spec, 1, observed, now)
    if before.phase is CanaryPhase.ROLLED_BACK:
        return Move(before, moved=False)
    step = min(before.step, len(spec.steps))
    if before.phase is CanaryPhase.PROMOTED and before.step >= len(spec.steps):
        kept = before.model_copy(update={"step": step, "weight": spec.steps[-1].weight})
        return Move(kept, moved=kept.weight != before.weight)
    if before.phase is CanaryPhase.PROMOTED:  # steps were added
        return _enter(spec, before.step + 1, observed, now, before)
    if step != before.step or spec.steps[step - 1].weight != before.weight:
        return _enter(spec, step, observed, now, before)
    if observed.state is BackendState.FAILED:
        return _end(before, CanaryPhase.ROLLED_BACK, 0, f"in step {step} it could not start", now)
    # At weight 100 the others answer nothing: only their earlier results are known.
    alone = before.weight == 100
    stable = observed.stable + _earlier(before) if alone else observed.stable
    if found := worse(spec.analysis, observed.canary, stable, alone=alone):
        at = f"in step {step}, at {before.weight} %: {found.figures}"
        return _end(before, CanaryPhase.ROLLED_BACK, 0, at, now)
    if not _passed(spec, before, now) or not _enough(spec, step, observed):
        return _stay(spec, before, observed, now)
    if has_too_many_errors(spec.analysis, observed.canary):
        return _stay(spec, before, observed, now)
    if step < len(spec.steps):
        return _enter(spec, step + 1, observed, now, before)
    return _end(before, CanaryPhase.PROMOTED, before.weight, _figures(observed.canary, stable), now)


def weights(backends: Sequence[RouteBackend], spec: Canary, percent: int) -> tuple[int, ...]:
    """Return the relative weight of each backend if the canary receives the given percentage."""
    stable = [0 if spec.is_same(each) else each.weight for each in backends]
    divisor = math.gcd(*stable)
    total = sum(stable) // divisor
    return tuple(
        total * percent if spec.is_same(each) else weight // divisor * (100 - percent)
        for each, weight in zip(backends, stable, strict=True)
    )


def _which(canary: Canary | CanaryStatus) -> tuple[str, str, str, str]:
    return canary.kind, canary.service, canary.model, canary.run_id


def _since(status: CanaryStatus, now: datetime) -> datetime:
    return parse_time(status.start_time) or now


def _until(spec: Canary, status: CanaryStatus, now: datetime) -> datetime:
    length: timedelta = parse_duration(spec.steps[status.step - 1].duration)
    return _since(status, now) + length


def _passed(spec: Canary, status: CanaryStatus, now: datetime) -> bool:
    return now >= _until(spec, status, now)


def _enough(spec: Canary, step: int, observed: CanaryObservation) -> bool:
    needed = spec.analysis.min_requests
    alone = spec.steps[step - 1].weight == 100
    return observed.canary.answered >= needed and (alone or observed.stable.answered >= needed)


def _earlier(before: CanaryStatus | None) -> Tally:
    """Return the results of the others in earlier steps."""
    kept = before.stable if before is not None else None
    if kept is None:
        return Tally()
    first, whole = Histogram.read(kept.first_byte_buckets), Histogram.read(kept.latency_buckets)
    return Tally(kept.answered, kept.answered, kept.errors, first, whole)


def _baseline(stable: Tally) -> CanaryBaseline | None:
    if not stable.answered:
        return None
    return CanaryBaseline(
        answered=stable.answered,
        errors=stable.errors,
        first_byte_buckets=stable.first.written(),
        latency_buckets=stable.whole.written(),
    )


def _enter(
    spec: Canary, step: int, observed: CanaryObservation, now: datetime, before: CanaryStatus | None = None
) -> Move:
    """Begin a step; `before` is the status in an earlier step of the same run, or None in the first one."""
    weight = spec.steps[step - 1].weight
    # Results from before the canary are used only if no step yields any: they may be from other hours.
    keeps = before is not None or weight == 100
    entered = CanaryStatus(
        kind=spec.kind,
        service=spec.service,
        model=spec.model,
        run_id=spec.run_id,
        phase=CanaryPhase.PROGRESSING,
        step=step,
        weight=weight,
        start_time=written(now),
        stable=_baseline(_earlier(before) + observed.stable) if keeps else None,
    )
    staying = _stay(spec, entered, observed, now)
    return Move(staying.status, True, staying.due)


def _stay(spec: Canary, status: CanaryStatus, observed: CanaryObservation, now: datetime) -> Move:
    """Return the same position, with a message that does not change with each request.

    A message that changed with each request would cause a status write for each one.
    """
    until, needed = _until(spec, status, now), spec.analysis.min_requests
    words = f"step {status.step} of {len(spec.steps)}: {status.weight} % of the requests; "
    if observed.skipped and observed.state is BackendState.HOLDING:
        words += "waits for requests but receives none: it sleeps, and the route has "
        words += "sleepingBackends: Skip"
    elif now < until:
        words += f"continues at {written(until)} if it is not worse by then and {needed} answers have arrived"
    elif _enough(spec, status.step, observed) and has_too_many_errors(spec.analysis, observed.canary):
        limit = f"{100 * spec.analysis.max_error_rate:.3g} %"
        words += f"waits for requests: errors exceed maxErrorRate ({limit}), possibly by chance"
    else:
        words += f"waits for requests: it needs {needed} answers, and so do the others"
    return Move(status.model_copy(update={"message": words}), False, until if now < until else None)


def _end(before: CanaryStatus, phase: CanaryPhase, weight: int, words: str, now: datetime) -> Move:
    update = {"phase": phase, "weight": weight, "start_time": written(now), "message": words}
    return Move(before.model_copy(update=update), moved=weight != before.weight)


def _figures(canary: Tally, stable: Tally) -> str:
    return (
        f"not worse than the others in any step; in the last one {canary.errors} errors of {canary.answered} "
        f"answers, where the others had {stable.errors} of {stable.answered}"
    )
