"""Outcome of a step: windows, percentiles, limits, and noise."""

import math
from dataclasses import replace

import pytest

from daybreak_runtime.benchmark.order import TOKENS, Objective
from daybreak_runtime.benchmark.outcome import FinishedRequest, Noise, noise, percentile, step
from tests.unit.runtime.benchmark.steps import step as made

WINDOWS = [(10.0, 20.0), (20.0, 30.0)]


def observe(
    end: float, latency: float = 1.0, ttft: float = 0.2, tokens: int = 9, error: str = ""
) -> FinishedRequest:
    return FinishedRequest(end - latency, ttft, latency, tokens, error)


def test_a_request_counts_in_the_window_in_which_it_ends() -> None:
    requested = [
        observe(9.9),
        observe(10.0),
        observe(15.0, latency=14.0),
        observe(19.9),
        observe(20.0),
        observe(30.0),
    ]
    found = step({}, (1, None), requested, WINDOWS, Objective())
    assert found.windows == (0.3, 0.1)
    assert (found.requests, found.requests_per_second, found.tokens_per_second) == (4, 0.2, 1.8)


def test_windows_count_tokens_if_tokens_are_the_objective() -> None:
    found = step({}, (1, None), [observe(11, tokens=30), observe(12, tokens=10)], WINDOWS, Objective(TOKENS))
    assert found.windows == (4.0, 0.0)
    assert found.value == 2.0


def test_ttft_tpot_and_latency_follow_vllm_definitions() -> None:
    requested = [observe(11, latency=1.0, ttft=0.2, tokens=9), observe(12, latency=0.5, ttft=0.5, tokens=1)]
    found = step({}, (1, None), requested, WINDOWS, Objective())
    assert (found.ttft_ms.p50, found.ttft_ms.p99) == (200, 500)
    assert found.tpot_ms.p99 == 100  # (1.0 - 0.2) s for 8 further tokens; one token has none
    assert found.latency_ms.p95 == 1000


def test_percentile_is_an_observed_value() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99)] == [50, 95, 99]
    assert percentile([3.0], 0.99) == 3.0
    assert percentile([], 0.5) == 0.0


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (Objective(ttft_p99_ms=100), "p99 of TTFT is 200 ms, above 100 ms"),
        (Objective(tpot_p99_ms=50), "p99 of TPOT is 100 ms, above 50 ms"),
        (Objective(ttft_p99_ms=200, tpot_p99_ms=100), ""),
    ],
)
def test_step_states_the_exceeded_latency_limit(objective: Objective, words: str) -> None:
    assert step({}, (1, None), [observe(11)], WINDOWS, objective).exceeds == words


def test_errors_are_counted_reported_and_limited() -> None:
    requested = [observe(11), *(observe(12, error="HTTP 503") for _ in range(3)), observe(13, error="cut")]
    found = step({}, (1, None), requested, WINDOWS, Objective())
    assert (found.requests, found.errors, found.first_error) == (1, 4, "HTTP 503")
    assert "80.0% of the requests failed, of which 1.0% may" in found.exceeds
    assert step({}, (1, None), requested, WINDOWS, Objective(error_rate=0.8)).exceeds == ""


def test_step_reports_that_no_request_was_answered() -> None:
    assert step({}, (1, None), [], WINDOWS, Objective()).exceeds == "no request was answered"


def test_noise_is_pooled_over_steps_and_scaled_by_window_count() -> None:
    # The standard deviations 0.02 and 0.14 have the root mean square 0.1.
    steps = [made({}, 10, spread=0.02), made({}, 100, spread=0.14)]
    known = noise(steps, factor=2, least=0.0)
    assert math.isclose(known.relative, 0.1, rel_tol=1e-9)
    # Two means of three windows each: 2 * 0.1 * sqrt(2 / 3).
    assert math.isclose(known.of(steps[0], steps[1]), 2 * 0.1 * math.sqrt(2 / 3) * 100)
    longer = [replace(each, windows=each.windows * 4) for each in steps]
    assert math.isclose(known.of(longer[0], longer[1]), known.of(steps[0], steps[1]) / 2)


def test_a_difference_within_noise_is_no_gain() -> None:
    known = Noise(relative=0.05, factor=2, least=0.02)
    assert not known.better(made({}, 108), made({}, 100))
    assert known.better(made({}, 115), made({}, 100))
    assert not Noise(0.0, 2, 0.02).better(made({}, 101), made({}, 100))
    assert noise([], 2, 0.02).relative == 0.0
