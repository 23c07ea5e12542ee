"""Significance of a canary's errors and latency: correct bounds, and equal canaries are left alone."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.api.llmroute.canary import CanaryAnalysis
from daybreak.kinds.llmroute.decide.compare import (
    at_least,
    at_most,
    quantile_at_least,
    quantile_at_most,
    worse,
)
from daybreak.protocol.tallies import LAST, Histogram, Tally, bound_ms


def analysis(**limits: float) -> CanaryAnalysis:
    return CanaryAnalysis.model_validate(limits)


def times(**buckets: int) -> Histogram:
    return Histogram({int(name[1:]): count for name, count in buckets.items()})


def answers(number: int, errors: int = 0, first: Histogram | None = None) -> Tally:
    return Tally(number, number, errors, first or Histogram(), first or Histogram())


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_observed_share_lies_between_bounds_for_any_counts(hits: int, number: int) -> None:
    hits = min(hits, number)
    low, high = at_least(hits, number), at_most(hits, number)
    assert 0 <= low <= hits / number <= high <= 1
    assert at_least(100 * hits, 100 * number) >= low - 1e-9, "more requests say more"
    assert at_most(100 * hits, 100 * number) <= high + 1e-9


def test_the_bounds_are_those_of_the_binomial_distribution() -> None:
    """If no request or every request is a hit, the bounds have a closed form."""
    assert at_most(0, 1000) == pytest.approx(1 - math.exp(-math.log(10_000) / 1000))
    assert at_least(1000, 1000) == pytest.approx(math.exp(-math.log(10_000) / 1000))
    assert (at_least(0, 10), at_most(10, 10)) == (0, 1)
    assert (at_least(0, 0), at_most(0, 0)) == (0, 1), "of nothing nothing is known"


@given(st.dictionaries(st.integers(0, LAST), st.integers(1, 10_000)), st.sampled_from([0.95, 0.99]))
def test_a_quantile_lies_between_its_bounds(counts: dict[int, int], part: float) -> None:
    found = Histogram(counts)
    observed = found.quantile_ms(part)
    assert quantile_at_least(found, part) <= (math.inf if observed is None else observed)
    assert quantile_at_most(found, part) >= (0 if observed is None else observed)


def test_significantly_higher_error_rate_is_worse() -> None:
    limit = analysis(errorRate=0.01)
    found = worse(limit, answers(100, 20), answers(1900, 4))
    assert found is not None
    assert "20 of 100 (20 %), where the others have 4 of 1900 (0.211 %)" in found.figures
    assert "1 % is allowed" in found.figures
    assert worse(limit, answers(20, 20), answers(20)) is not None, "before enough requests, too"
    assert worse(limit, answers(3, 3), answers(1000)) is not None
    assert worse(limit, answers(20, 1), answers(1900)) is None, "one may be chance"
    assert worse(limit, answers(100, 20), answers(1900, 380)) is None, "the others are as bad"
    assert worse(limit, answers(10_000, 150), answers(10_000, 100)) is None, "allowed"
    assert worse(limit, answers(100, 40), answers(0)) is None, "nothing to compare with"


def test_errors_have_an_absolute_limit() -> None:
    for limit in (analysis(errorRate=0.01), analysis(ttftP95=1.2)):
        found = worse(limit, answers(5000, 5000), answers(0))
        assert found is not None
        assert "5000 of 5000 (100 %), where the others have no results" in found.figures
        assert "maxErrorRate allows 50 %" in found.figures
        assert worse(limit, answers(10, 10), answers(0)) is None, "maybe chance"
        assert worse(limit, answers(5000, 2500), answers(5000, 2500)) is None
    as_bad = worse(analysis(errorRate=0.01, maxErrorRate=0.2), answers(1000, 400), answers(9000, 3600))
    assert as_bad is not None, "the others are as bad"
    assert worse(analysis(errorRate=0, maxErrorRate=0.5), answers(1000, 400), answers(9000, 3600)) is None


def test_error_limit_is_absolute_if_canary_receives_all_requests() -> None:
    limit = analysis(errorRate=0.01)
    assert worse(limit, answers(1000, 50), answers(0)) is None
    found = worse(limit, answers(1000, 50), answers(0), alone=True)
    assert found is not None
    assert "where the others have no results" in found.figures
    assert worse(limit, answers(1000, 50), answers(9000, 450), alone=True) is None, "results are known"


def test_significantly_higher_latency_is_worse() -> None:
    limit = analysis(ttftP95=1.2, minRequests=50)
    fast, slow = times(b10=1980, b20=20), times(b20=95, b30=5)
    found = worse(limit, answers(100, first=slow), answers(2000, first=fast))
    assert found is not None
    assert found.figures.startswith("time to first token P95: 0.32 s in 100 answers, where the others have")
    assert "1.2 times is allowed" in found.figures
    assert worse(analysis(ttftP95=100), answers(100, first=slow), answers(2000, first=fast)) is None
    few = answers(49, first=times(b30=49))
    assert worse(limit, few, answers(2000, first=fast)) is None, "fewer than needed: it may be warming up"
    assert worse(limit, answers(100, first=slow), answers(2000, first=slow)) is None
    assert worse(limit, answers(100, first=slow), answers(0)) is None
    # A P99 is known from about 900 requests, also for the other backends.
    late = analysis(latencyP99=1.5, minRequests=1)
    assert worse(late, answers(1000, first=slow), answers(500, first=times(b10=500))) is None
    assert worse(late, answers(1000, first=slow), answers(2000, first=times(b10=2000))) is not None


def test_adjacent_bucket_is_not_worse_at_limit_of_1_2() -> None:
    """Buckets are as wide as the differences that the comparison detects."""
    one, next_ = times(b10=10_000), times(b11=10_000)
    assert bound_ms(11) / bound_ms(10) < 1.2
    assert worse(analysis(ttftP95=1.2), answers(10_000, first=next_), answers(10_000, first=one)) is None


@pytest.mark.parametrize("part", [0.001, 0.02, 0.3])
def test_at_most_1_of_100_equal_canaries_is_worse_after_many_checks(part: float) -> None:
    """Compare each of 100 canaries that equal the others after every ten requests."""
    limit, wrong = analysis(errorRate=0), 0
    chance = random.Random(17)  # noqa: S311 -- chance, not secrecy
    for _ in range(100):
        canary = stable = 0
        for looks in range(1, 40):
            canary += sum(chance.random() < part for _ in range(10))
            stable += sum(chance.random() < part for _ in range(30))
            if worse(limit, answers(10 * looks, canary), answers(30 * looks, stable)):
                wrong += 1
                break
    assert wrong <= 1
