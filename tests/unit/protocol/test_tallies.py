"""Gateways' reports of routes: parsing, sums, and quantiles."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.protocol.tallies import LAST, Histogram, RouteTally, Tally, added, bound_ms, parse

HISTOGRAMS = st.dictionaries(st.integers(0, LAST), st.integers(1, 10**6)).map(
    lambda counts: Histogram(dict(sorted(counts.items())))
)
COUNTS = st.integers(0, 10**6)
TALLIES = st.builds(Tally, COUNTS, COUNTS, COUNTS, HISTOGRAMS, HISTOGRAMS)


@given(TALLIES)
def test_tally_is_unchanged_after_serialization_and_parsing(tally: Tally) -> None:
    reported = {"chat": RouteTally("2026-01-01T00:00:00Z", {"one/a": tally})}
    assert parse(json.loads(json.dumps({name: each.wire() for name, each in reported.items()}))) == reported
    assert Histogram.read(tally.first.written()) == tally.first


@given(HISTOGRAMS, HISTOGRAMS, st.integers(0, LAST))
def test_histogram_addition_is_commutative_and_sums_counts(
    one: Histogram, other: Histogram, bucket: int
) -> None:
    both = one + other
    assert both == other + one
    assert both.total == one.total + other.total
    assert both.above(bucket) == one.above(bucket) + other.above(bucket)


@given(HISTOGRAMS, st.sampled_from([0.5, 0.95, 0.99]))
def test_quantile_is_smallest_bucket_bound_that_covers_its_share(times: Histogram, part: float) -> None:
    found = times.quantile_ms(part)
    if not times.counts:
        assert found is None
        return
    at = next(bucket for bucket in range(LAST + 1) if bound_ms(bucket) == found)
    assert times.above(at) <= times.total * (1 - part) + 1e-6
    assert at == 0 or times.above(at - 1) > times.total * (1 - part) - 1e-6


@pytest.mark.parametrize(
    "report",
    [None, [], {"chat": []}, {"chat": {"since": 1, "ways": 2}}],
)
def test_malformed_report_parses_to_no_backends(report: object) -> None:
    assert all(not tally.backends for tally in parse(report).values())


def test_invalid_counts_are_ignored_and_huge_counts_are_capped() -> None:
    row = [-1, "2", 2**90, {"5": 7, "99": 1, "x": 1, "-1": 1, "6": True}, 3]
    tally = parse({"chat": {"since": "t", "ways": {"one/a": row, "one/b": [1, 2]}}})["chat"]
    assert tally.backends["one/a"] == Tally(0, 0, 2**50, Histogram({5: 7}))
    assert tally.backends["one/b"] == Tally()
    assert Histogram.read("3:4 x:1 5 6:-2 7:9") == Histogram({3: 4, 7: 9})


def test_report_above_size_limits_is_rejected() -> None:
    with pytest.raises(ValueError, match="backends"):
        parse({"chat": {"ways": {f"s/{number}": [] for number in range(65)}}})
    with pytest.raises(ValueError, match="routes"):
        parse({str(number): {} for number in range(2049)})
    with pytest.raises(ValueError, match="routes"):
        parse({"x" * 513: {}})


def test_sum_ignores_tallies_with_an_earlier_start() -> None:
    one, other = Tally(sent=1), Tally(sent=2)
    early, late = RouteTally("t1", {"a": one}), RouteTally("t2", {"a": other, "b": one})
    assert added([early, late]) == late
    assert added([late, late]) == RouteTally("t2", {"a": Tally(sent=4), "b": Tally(sent=2)})
    assert added([]) is None


def test_tally_without_passed_on_count_parses_as_zero() -> None:
    whole = Tally(5, 4, 1, Histogram({3: 2}), Histogram({4: 2}), passed_on=1)
    assert Tally.parse(whole.wire()) == whole
    assert Tally.parse(whole.wire()[:5]).passed_on == 0
    assert (whole + whole).passed_on == 2
