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
def test_a_tally_comes_back_as_it_was(tally: Tally) -> None:
    reported = {"chat": RouteTally("2026-01-01T00:00:00Z", {"one/a": tally})}
    assert parse(json.loads(json.dumps({name: each.wire() for name, each in reported.items()}))) == reported
    assert Histogram.read(tally.first.written()) == tally.first


@given(HISTOGRAMS, HISTOGRAMS, st.integers(0, LAST))
def test_histograms_add_up(one: Histogram, other: Histogram, bucket: int) -> None:
    both = one + other
    assert both == other + one
    assert both.total == one.total + other.total
    assert both.above(bucket) == one.above(bucket) + other.above(bucket)


@given(HISTOGRAMS, st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_has_its_part_below_it(times: Histogram, part: float) -> None:
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
def test_what_has_another_shape_is_nothing(report: object) -> None:
    assert all(not tally.backends for tally in parse(report).values())


def test_nonsense_counts_as_nothing() -> None:
    row = [-1, "2", 2**90, {"5": 7, "99": 1, "x": 1, "-1": 1, "6": True}, 3]
    tally = parse({"chat": {"since": "t", "ways": {"one/a": row, "one/b": [1, 2]}}})["chat"]
    assert tally.backends["one/a"] == Tally(0, 0, 2**50, Histogram({5: 7}))
    assert tally.backends["one/b"] == Tally()
    assert Histogram.read("3:4 x:1 5 6:-2 7:9") == Histogram({3: 4, 7: 9})


def test_more_than_any_gateway_has_is_refused() -> None:
    with pytest.raises(ValueError, match="backends"):
        parse({"chat": {"ways": {f"s/{number}": [] for number in range(65)}}})
    with pytest.raises(ValueError, match="routes"):
        parse({str(number): {} for number in range(2049)})
    with pytest.raises(ValueError, match="routes"):
        parse({"x" * 513: {}})


def test_what_counts_from_another_time_is_left_out() -> None:
    one, other = Tally(sent=1), Tally(sent=2)
    early, late = RouteTally("t1", {"a": one}), RouteTally("t2", {"a": other, "b": one})
    assert added([early, late]) == late
    assert added([late, late]) == RouteTally("t2", {"a": Tally(sent=4), "b": Tally(sent=2)})
    assert added([]) is None


def test_a_gateway_of_an_older_version_tells_nothing_of_what_was_passed_on() -> None:
    whole = Tally(5, 4, 1, Histogram({3: 2}), Histogram({4: 2}), passed_on=1)
    assert Tally.parse(whole.wire()) == whole
    assert Tally.parse(whole.wire()[:5]).passed_on == 0
    assert (whole + whole).passed_on == 2
