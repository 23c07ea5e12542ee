"""The search alone: the settings that it tries, and its end."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from daybreak_runtime.benchmark.order import Dimension
from daybreak_runtime.benchmark.outcome import Settings, Step, Trial
from daybreak_runtime.benchmark.search.ladders import search
from tests.unit.runtime.benchmark.steps import trial

H200 = {4: 7.0, 8: 13.0, 16: 19.0, 32: 34.1, 64: 45.4, 128: 51.6, 256: 51.5, 512: 51.0, 1024: 50.9}
"""Requests/s by max_num_seqs, as they were once measured by hand with 64 clients, and made up in between."""


def better(one: Step, other: Step) -> bool:
    return one.value > 1.05 * other.value


def found(
    sweep: list[Dimension],
    measure: Callable[[Settings], float | None],
    patience: int = 1,
    given: Mapping[str, Any] | None = None,
) -> tuple[list[Settings], dict[str, Any], str]:
    """Return the tried settings, the best of them, and the reason for the end."""
    plan = search(sweep, patience, better, given or {})
    tried: list[Trial] = []
    settings = next(plan)
    while True:
        tried.append(trial(settings, measure(settings)))
        try:
            settings = plan.send(tried[-1])
        except StopIteration as end:
            steps = [best for each in tried if (best := each.best) is not None]
            best = max(steps, key=lambda step: step.value) if steps else None
            return [each.settings for each in tried], best.settings if best else {}, str(end.value)


def seqs(*values: Any) -> list[Dimension]:
    return [Dimension("max_num_seqs", values)]


def test_without_a_sweep_only_the_baseline_is_measured() -> None:
    tried, best, _ = found([], lambda _: 1.0)
    assert (tried, best) == ([{}], {})


def test_search_climbs_while_better_and_fills_gaps_beside_the_best() -> None:
    curve = {1: 1.0, 2: 2.0, 4: 4.0, 8: 7.0, 16: 9.0, 32: 8.0, 64: 6.0}
    tried, best, words = found(seqs(*curve), lambda each: curve[each["max_num_seqs"]] if each else 0.5)
    assert [each.get("max_num_seqs") for each in tried] == [None, 1, 4, 16, 64, 8, 32]
    assert best == {"max_num_seqs": 16}
    assert words == "max_num_seqs: 64 is worse than 16, beyond noise"


def test_search_reaches_plateau_of_a_real_curve_within_eight_starts() -> None:
    tried, best, words = found(seqs(*H200), lambda each: H200[each["max_num_seqs"]] if each else 30.0)
    assert best["max_num_seqs"] >= 128
    assert len(tried) <= 8, "each start of an engine costs a minute"
    assert "no better" in words


def test_search_ends_early_on_a_plateau() -> None:
    tried, _, _ = found(seqs(1, 2, 4, 8, 16), lambda each: 1.0)
    assert [each.get("max_num_seqs") for each in tried] == [None, 1, 4, 2]


def test_search_finds_a_peak_between_two_equal_jumps() -> None:
    curve = {1: 1.0, 2: 2.0, 4: 1.0}
    assert found(seqs(*curve), lambda each: curve[each["max_num_seqs"]] if each else 0.1)[1] == {
        "max_num_seqs": 2
    }


def test_last_value_is_compared_with_the_best_earlier_value() -> None:
    curve = {64: 58.9, 256: 65.6, 512: 66.3}
    _, best, words = found(
        seqs(64, 128, 256, 512), lambda each: curve[each["max_num_seqs"]] if each else 60.0
    )
    assert best == {"max_num_seqs": 512}
    assert words == "max_num_seqs: 512 is no better than 256, beyond noise"


def test_search_crosses_a_dip_with_more_patience() -> None:
    curve = {1: 1.0, 2: 1.0, 4: 0.9, 8: 2.0, 16: 9.0}
    measure: Callable[[Settings], float] = lambda each: curve[each["max_num_seqs"]] if each else 0.1  # noqa: E731
    assert found(seqs(*curve), measure)[1] == {"max_num_seqs": 1}
    assert found(seqs(*curve), measure, patience=2)[1] == {"max_num_seqs": 16}


def test_climb_ends_at_engine_that_does_not_start() -> None:
    tried, best, words = found(
        seqs(1, 2, 4, 8, 16, 32, 64),
        lambda each: None if each.get("max_num_seqs", 0) > 8 else 1.0 + each.get("max_num_seqs", 0),
    )
    assert best == {"max_num_seqs": 8}
    assert [each.get("max_num_seqs") for each in tried] == [None, 1, 4, 16, 2, 8]
    assert words == "max_num_seqs: 16 does not start"


def test_search_continues_if_first_engines_do_not_start() -> None:
    tried, best, _ = found(seqs(1, 2, 4), lambda each: 5.0 if each.get("max_num_seqs") == 4 else None)
    assert best == {"max_num_seqs": 4}
    assert {} in tried


def test_search_tries_no_setting_twice_and_counts_the_baseline() -> None:
    curve = {2: 1.0, 4: 2.0, 8: 3.0}
    tried, best, _ = found(
        seqs(*curve), lambda each: curve[each.get("max_num_seqs", 8)], given={"max_num_seqs": 8}
    )
    assert tried == [{}, {"max_num_seqs": 2}, {"max_num_seqs": 4}]
    assert best == {}


def test_search_alternates_between_two_dependent_arguments() -> None:
    """The best of one hangs on the other: 16 slots pay only with many tokens."""

    def measure(settings: Settings) -> float:
        slots, tokens = settings.get("max_num_seqs", 1), settings.get("max_num_batched_tokens", 1)
        return float(min(slots, 2 * tokens) + 0.3 * tokens)

    sweep = [*seqs(1, 2, 4, 8, 16), Dimension("max_num_batched_tokens", (1, 2, 4, 8))]
    tried, best, _ = found(sweep, measure)
    assert best == {"max_num_seqs": 16, "max_num_batched_tokens": 8}
    texts = [repr(sorted(each.items())) for each in tried]
    assert len(set(texts)) == len(texts) < 5 * 4


@pytest.mark.parametrize("values", [(True, False), ("auto", "fp8"), (0.5, 0.9)])
def test_search_finds_best_value_of_any_type(values: tuple[Any, ...]) -> None:
    _, best, _ = found([Dimension("x", values)], lambda each: 2.0 if each.get("x") == values[1] else 1.0)
    assert best == {"x": values[1]}
