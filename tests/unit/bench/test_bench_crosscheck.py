"""Summary of the runs that cross-check the load client."""

from typing import Any

from bench.ray.crosscheck import GOALS, measures
from bench.report import met


def run(way: str, number: int, rate: float, tpot: float, errors: int = 0) -> dict[str, Any]:
    figures = {"requests_per_second": rate, "ttft_p50_ms": 10.0, "tpot_p50_ms": tpot}
    return {"way": way, "round": number, "errors": errors, **figures}


def test_ratios_compare_runs_of_same_round_in_any_order() -> None:
    runs = [
        run("ours", 0, 10, 4),
        run("vllm", 0, 10, 4),
        run("vllm", 1, 20, 2),
        run("ours", 1, 22, 1),
        run("ours", 2, 9, 8),
        run("vllm", 2, 10, 8),
    ]
    found = measures(runs)
    assert (found["requests_ratio"], found["tpot_ratio"], found["ttft_ratio"]) == (1.0, 1.0, 1.0)
    assert (found["ours_requests_per_second"], found["vllm_requests_per_second"]) == (10, 10)
    assert all(met(found[name], goal) for name, goal in GOALS.items())


def test_a_load_that_differs_or_fails_misses_its_goals() -> None:
    found = measures([run("ours", 0, 8, 2.3), run("vllm", 0, 10, 2, errors=1)])
    assert not any(met(found[name], goal) for name, goal in GOALS.items())
