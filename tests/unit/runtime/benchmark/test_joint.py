"""The search over three arguments and more, replayed on simulated engines."""

import random
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import pytest

from daybreak_runtime.benchmark.order import Dimension
from daybreak_runtime.benchmark.outcome import Noise, Settings, Trial
from daybreak_runtime.benchmark.search.joint import STARTUP, WAITS
from daybreak_runtime.benchmark.search.ladders import search
from daybreak_runtime.benchmark.search.tried import key
from tests.unit.runtime.benchmark.steps import trial
from tests.unit.runtime.benchmark.surface import SWEEP, every, surface

NOISE = Noise(relative=0.01, factor=2, least=0.02)
Measure = Callable[[Settings], float | None]


def send_request(
    sweep: Sequence[Dimension], measure: Measure, seed: int = 0, given: dict[str, Any] | None = None
) -> tuple[list[Trial], str]:
    """Return the tried settings, and the reason for the end."""
    plan = search(sweep, 1, NOISE.better, given or {}, seed)
    found: list[Trial] = []
    settings = next(plan)
    while True:
        found.append(trial(dict(settings), measure(settings)))
        try:
            settings = plan.send(found[-1])
        except StopIteration as end:
            return found, str(end.value)


def best(values: Sequence[float | None]) -> float:
    return max(value for value in values if value is not None)


def value(found: Trial) -> float | None:
    return found.best.value if found.best is not None else None


@pytest.mark.parametrize("arguments", [3, 4])
def test_search_gets_near_the_optimum_and_beats_random_starts(arguments: int) -> None:
    """The optimum is that of a grid of 288 or 1,152 settings; the search needs about thirty starts."""
    sweep = SWEEP[:arguments]
    ours, random_ones, starts = [], [], []
    for number in range(6):
        measure, grid = surface(number), every(sweep)
        top = best([measure(each) for each in grid])
        found, _ = send_request(sweep, measure)
        ours.append(best([value(each) for each in found]) / top)
        starts.append(len(found))
        for seed in range(5):
            dice = random.Random(seed)  # noqa: S311
            random_ones.append(best([measure(each) for each in dice.sample(grid, len(found))]) / top)
    assert fmean(starts) <= 40
    assert fmean(ours) > 0.97
    assert fmean(ours) > fmean(random_ones) + 0.05


def test_search_is_deterministic_for_a_seed_and_differs_between_seeds() -> None:
    measure = surface(3)
    first, _ = send_request(SWEEP, measure, seed=5)
    assert send_request(SWEEP, measure, seed=5)[0] == first
    assert send_request(SWEEP, measure, seed=6)[0] != first


def test_search_resumes_from_replayed_measurements() -> None:
    measure = surface(3)
    whole, _ = send_request(SWEEP, measure)
    plan = search(SWEEP, 1, NOISE.better, {}, 0)
    settings = next(plan)
    for known in whole[:-1]:
        assert settings == known.settings
        settings = plan.send(known)
    assert settings == whole[-1].settings


def test_search_ends_after_few_starts_on_a_plateau() -> None:
    found, words = send_request(SWEEP, lambda _: 1.0)
    assert len(found) <= 1 + STARTUP + WAITS + 2 * len(SWEEP)
    assert words == "no neighbor of the best is better"


def test_search_continues_if_engines_do_not_start() -> None:
    found, _ = send_request(SWEEP, lambda each: 5.0 if each.get("max_num_seqs", 0) >= 256 else None)
    assert any(each.best is not None for each in found)
    assert len({key(each.settings) for each in found}) == len(found)


def test_search_ends_if_no_engine_starts() -> None:
    found, words = send_request(SWEEP, lambda _: None)
    assert len(found) <= 1 + STARTUP + WAITS
    assert words == "no setting that was tried starts and keeps the limits"


def test_search_tries_no_setting_twice_and_counts_the_baseline() -> None:
    sweep = [Dimension(name, (False, True)) for name in ("a", "b", "c")]
    given = {"a": False, "b": False, "c": False}
    found, _ = send_request(sweep, lambda each: 1.0 + len(each), given=given)
    texts = [key(each.settings) for each in found]
    assert len(set(texts)) == len(texts) <= 8
    assert max(found, key=lambda each: value(each) or 0).settings == {"a": True, "b": True, "c": True}


def test_search_finds_best_setting_for_values_of_any_type() -> None:
    sweep = [
        Dimension("kv_cache_dtype", ("auto", "fp8")),
        Dimension("enable_prefix_caching", (True, False)),
        Dimension("compilation_config", ({"level": 0}, {"level": 3})),
    ]
    good = {"kv_cache_dtype": "fp8", "enable_prefix_caching": False, "compilation_config": {"level": 3}}

    def measure(settings: Settings) -> float:
        return float(1 + sum(settings.get(name) == value for name, value in good.items()))

    found, _ = send_request(sweep, measure)
    assert max(found, key=lambda each: value(each) or 0).settings == good
