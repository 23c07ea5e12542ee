"""The search on synthetic curves: it ends, repeats nothing, and returns the best point."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from daybreak_runtime.benchmark.order import Dimension
from daybreak_runtime.benchmark.outcome import Noise, Settings, Trial
from daybreak_runtime.benchmark.search.ladders import search
from daybreak_runtime.benchmark.search.tried import key
from tests.unit.runtime.benchmark.steps import trial

VALUES = st.one_of(st.none(), st.floats(0.1, 1000))
NOISE = Noise(relative=0.0, factor=2, least=0.02)


def drive(sweep: list[Dimension], measure: Any, patience: int) -> list[Trial]:
    plan = search(sweep, patience, NOISE.better, {})
    tried: list[Trial] = []
    settings = next(plan)
    while True:
        tried.append(trial(dict(settings), measure(settings)))
        try:
            settings = plan.send(tried[-1])
        except StopIteration:
            return tried


def value(found: Trial) -> float:
    return found.best.value if found.best is not None else -1.0


@given(st.lists(VALUES, min_size=1, max_size=14), VALUES, st.integers(1, 4))
def test_search_of_one_argument_repeats_no_settings_for_any_curve(
    curve: list[float | None], baseline: float | None, patience: int
) -> None:
    values = [2**n for n in range(len(curve))]
    by_value = dict(zip(values, curve, strict=True))
    tried = drive(
        [Dimension("x", tuple(values))], lambda each: by_value[each["x"]] if each else baseline, patience
    )
    assert tried[0].settings == {}
    assert len({key(each.settings) for each in tried}) == len(tried) <= len(curve) + 1
    assert all(each.settings.get("x", 1) in by_value for each in tried)


@given(st.integers(0, 12), st.integers(2, 13), st.floats(1.1, 3.0))
def test_search_finds_peak_of_any_curve_with_single_peak(peak: int, size: int, slope: float) -> None:
    """Each rung is beyond noise from the next, so nothing but the peak will do."""
    peak = min(peak, size - 1)
    by_value = {2**n: 100 / slope ** abs(n - peak) for n in range(size)}
    tried = drive([Dimension("x", tuple(by_value))], lambda each: by_value[each["x"]] if each else 0.01, 1)
    assert max(tried, key=value).settings == {"x": 2**peak}
    # Half of the way in jumps, and the points around the peak and beyond it.
    assert len(tried) <= 1 + peak // 2 + 5


@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=4),
    st.dictionaries(st.integers(0, 4000), st.floats(0.1, 100), max_size=50),
    st.integers(1, 3),
)
def test_search_of_several_arguments_ends_and_repeats_no_settings(
    sizes: list[int], heights: dict[int, float], patience: int
) -> None:
    sweep = [Dimension(f"a{n}", tuple(range(size))) for n, size in enumerate(sizes)]

    def measure(settings: Settings) -> float:
        place = sum(7**n * (settings.get(f"a{n}", -1) + 1) for n in range(len(sizes)))
        return heights.get(place, 1.0)

    tried = drive(sweep, measure, patience)
    assert len({key(each.settings) for each in tried}) == len(tried)
    allowed = {each.name: each.values for each in sweep}
    assert all(v in allowed[name] for each in tried for name, v in each.settings.items())
