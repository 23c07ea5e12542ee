"""Measurements of the steady path, and their summary."""

import json
from typing import Any

import pytest

from bench.gateway.steady import GOALS, measures
from bench.gateway.steady_paths import SIZES, request
from bench.gateway.steady_programs import Failed, Load, module_version, parse


def printed(**more: Any) -> str:
    """Return the output of the load client."""
    answers = {"req1xx": 0, "req2xx": 500, "req3xx": 0, "req4xx": 0, "req5xx": 0, "others": 0}
    latency = {"mean": 90.0, "percentiles": {"50": 64, "99": 214}}
    return json.dumps({"result": {**answers, "timeTakenSeconds": 2.5, "latency": latency, **more}})


def test_load_output_is_parsed_in_milliseconds() -> None:
    assert parse(printed()) == Load(requests=500, seconds=2.5, p50_ms=0.064, p99_ms=0.214)


@pytest.mark.parametrize(
    "more",
    [{"req5xx": 1}, {"others": 1}, {"req2xx": 0}, {"errors": [{"description": "timeout", "count": 1}]}],
)
def test_run_with_failed_or_missing_answers_is_rejected(more: dict[str, Any]) -> None:
    with pytest.raises(Failed):
        parse(printed(**more))


def test_module_version_is_that_of_required_go_module() -> None:
    assert module_version("knative", "knative.dev/serving").count(".") == 2
    with pytest.raises(ValueError, match="does not require"):
        module_version("knative", "example.org/nothing")


def run(number: int, path: str, p50_ms: float, **cpu_us: float) -> list[dict[str, Any]]:
    """Return the two runs of a path in a round."""
    row = {"round": number, "path": path, "p50_ms": p50_ms, "requests_per_second": 1000}
    return [row | {"clients": clients, "cpu_us_per_request": cpu_us} for clients in (1, 32)]


def test_paths_are_compared_within_a_round() -> None:
    rounds = [
        row
        for number, direct in ((1, 0.05), (2, 0.10), (3, 0.06))
        for row in (
            *run(number, "direct", direct, model=20),
            *run(number, "gateway", direct + 0.1, gateway=50),
            *run(number, "gateway-key", direct + 0.1, gateway=60),
            *run(number, "router", direct + 0.1, gateway=70),
            *run(number, "gateway-1m", direct + 2, gateway=1000),
            *run(number, "router-1m", direct + 2, gateway=1300),
            *run(number, "direct-1m", direct + 1, model=30),
            *run(number, "queue-proxy", direct + 0.3, **{"queue-proxy": 150}),
            *run(number, "activator", direct + 0.5, **{"queue-proxy": 150, "activator": 200}),
            *run(number, "direct-long", direct + 1, model=30),
            *run(number, "gateway-long", direct + 1.2, gateway=100),
            *run(number, "queue-proxy-long", direct + 1.4, **{"queue-proxy": 200}),
        )
    ]
    found = measures(rounds)
    assert found["gateway_added_p50_ms"] == pytest.approx(0.1)
    assert found["queue_proxy_added_p50_ms"] == pytest.approx(0.3)
    assert found["requests_per_cpu_second_ratio_queue_proxy"] == pytest.approx(3)
    assert found["key_requests_per_cpu_second_ratio_queue_proxy"] == pytest.approx(2.5)
    assert found["router_requests_per_cpu_second_ratio_queue_proxy"] == pytest.approx(150 / 70)
    assert found["requests_per_cpu_second_ratio_activator"] == pytest.approx(7)
    assert found["activator_alone_cpu_us_per_request"] == pytest.approx(200)
    assert found["router_cpu_ratio"] == pytest.approx(1.4)
    assert found["router_cpu_ratio_1m"] == pytest.approx(1.3)
    assert found["gateway_long_added_p50_ms"] == pytest.approx(0.2)
    assert found["requests_per_cpu_second_ratio_queue_proxy_long"] == pytest.approx(2)


def test_every_goal_has_a_measure() -> None:
    names = [
        name + end for name in ("direct", "gateway", "gateway-key", "router", "queue-proxy") for end in SIZES
    ]
    rows = [row for name in [*names, "activator"] for row in run(1, name, 1, cpu=10)]
    assert set(GOALS) <= set(measures(rows))


@pytest.mark.parametrize(("end", "size"), SIZES.items())
def test_request_body_has_about_expected_size(end: str, size: int) -> None:
    body = request(end)
    assert 0.8 * size < len(body) < 1.3 * size
    assert json.loads(body)["model"]
