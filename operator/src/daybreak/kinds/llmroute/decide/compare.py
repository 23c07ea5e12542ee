"""Comparison of backends beyond noise, with bounds that hold for samples of any size.

The bounds follow from Chernoff's inequality for an event of probability p. A sample of n has the share s of
it, or one further away from p, with a probability of at most exp(-n * KL(s, p)). `LEVEL` makes that 1 in
10,000 on each side. The bounds assume no distribution of times: a quantile is compared by the number of
requests that took longer than the bound of a histogram bucket. A growing sample is checked repeatedly, but
successive checks are much alike. The checks of one step together err about as often as some ten that are far
apart.
"""

import math
from dataclasses import dataclass

from daybreak.api.llmroute.canary import CanaryAnalysis
from daybreak.protocol.tallies import LAST, Histogram, Tally, bound_ms

LEVEL = math.log(10_000)
_HALVINGS = 30


@dataclass(frozen=True)
class Worse:
    """Excess of a canary over its limits, compared with the others."""

    figures: str


def worse(analysis: CanaryAnalysis, canary: Tally, stable: Tally, *, alone: bool = False) -> Worse | None:
    """Return the limit that a canary exceeds beyond noise, or None if no excess is certain.

    Args:
        analysis: The limits.
        canary: Results of the canary.
        stable: Results of the other backends.
        alone: True if the canary receives all requests. Without results of the others, the limit of its
            errors is then absolute.
    """
    if found := _errors(analysis, canary, stable, alone=alone):
        return found
    if analysis.ttft_p95 is not None and canary.first.total >= analysis.min_requests:
        found = _times("time to first token P95", 0.95, analysis.ttft_p95, canary.first, stable.first)
        if found:
            return found
    if analysis.latency_p99 is not None and canary.whole.total >= analysis.min_requests:
        return _times("latency P99", 0.99, analysis.latency_p99, canary.whole, stable.whole)
    return None


def at_least(hits: int, number: int) -> float:
    """Return the lower confidence bound of a share, given `hits` of `number` requests."""
    return _bound(hits, number, 0.0)


def at_most(hits: int, number: int) -> float:
    """Return the upper confidence bound of a share, given `hits` of `number` requests."""
    return _bound(hits, number, 1.0)


def quantile_at_least(times: Histogram, part: float) -> float:
    """Return a lower confidence bound of a quantile, in milliseconds, or 0 if none is known."""
    number = times.total
    sure = (
        bucket
        for bucket in range(LAST - 1, -1, -1)
        if times.above(bucket) > number * (1 - part) and _excluded(times.above(bucket), number, 1 - part)
    )
    return next((bound_ms(bucket) for bucket in sure), 0.0)


def quantile_at_most(times: Histogram, part: float) -> float:
    """Return an upper confidence bound of a quantile, in milliseconds, or infinity if none is known."""
    number = times.total
    sure = (
        bucket
        for bucket in range(LAST)
        if times.above(bucket) < number * (1 - part) and _excluded(times.above(bucket), number, 1 - part)
    )
    return next((bound_ms(bucket) for bucket in sure), math.inf)


def has_too_many_errors(analysis: CanaryAnalysis, canary: Tally) -> bool:
    """Return True if a canary's errors currently exceed the absolute limit, by chance or not."""
    return canary.errors > analysis.max_error_rate * canary.answered


def _errors(analysis: CanaryAnalysis, canary: Tally, stable: Tally, *, alone: bool) -> Worse | None:
    if not canary.answered:
        return None
    least, allowed = at_least(canary.errors, canary.answered), analysis.error_rate
    figures = f"errors: {_part(canary)}, where the others have {_part(stable)}: at least"
    if allowed is not None and (stable.answered or alone):
        more = least - (at_most(stable.errors, stable.answered) if stable.answered else 0.0)
        if more > allowed:
            return Worse(f"{figures} {_percent(more)} more, beyond noise, and {_percent(allowed)} is allowed")
    if least > analysis.max_error_rate:
        most = _percent(analysis.max_error_rate)
        return Worse(f"{figures} {_percent(least)}, beyond noise, and maxErrorRate allows {most}")
    return None


def _times(name: str, part: float, allowed: float, canary: Histogram, stable: Histogram) -> Worse | None:
    lowest, highest = quantile_at_least(canary, part), quantile_at_most(stable, part)
    if lowest <= allowed * highest or not stable.counts:
        return None
    return Worse(
        f"{name}: {_time(canary, part)} in {canary.total} answers, where the others have "
        f"{_time(stable, part)} in {stable.total}: at least {lowest / highest:.2f} times as long, beyond "
        f"noise, and {allowed:g} times is allowed"
    )


def _bound(hits: int, number: int, end: float) -> float:
    """Return the share furthest towards `end` that could have produced the hits within chance."""
    if not number:
        return end
    observed = min(1.0, hits / number)
    inside, outside = observed, end
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if _excluded(hits, number, middle):
            outside = middle
        else:
            inside = middle
    return outside


def _excluded(hits: int, number: int, part: float) -> bool:
    """Return True if chance does not explain the hits for the given expected share."""
    observed = min(1.0, hits / number)
    return number * _divergence(observed, part) > LEVEL


def _divergence(observed: float, true: float) -> float:
    """Return the Kullback-Leibler divergence of two coins."""
    return _term(observed, true) + _term(1 - observed, 1 - true)


def _term(observed: float, true: float) -> float:
    if observed <= 0:
        return 0.0
    return observed * math.log(observed / true) if true > 0 else math.inf


def _part(tally: Tally) -> str:
    if not tally.answered:
        return "no results"
    return f"{tally.errors} of {tally.answered} ({_percent(tally.errors / tally.answered)})"


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"


def _time(times: Histogram, part: float) -> str:
    found = times.quantile_ms(part)
    return f"{(found or 0) / 1000:.3g} s"
