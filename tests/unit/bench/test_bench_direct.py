"""The benchmark of the direct path: its stub engine, its settings, and its summary."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.render import Wish, render
from bench.ray.direct import CLIENTS, cpu_ms, goals, measures
from bench.ray.direct_pace import STEP_SECONDS, TOKENS_PER_SECOND, Paced, alone, answer, step_seconds
from bench.ray.direct_ways import SAMPLE, several


async def events(desired: int) -> list[str]:
    return [event async for event in answer(Paced(), "tiny", desired, 7)]


class TestStandIn:
    @pytest.mark.parametrize("pace", CLIENTS)
    def test_number_of_clients_produces_intended_pace(self, pace: int) -> None:
        assert CLIENTS[pace] / step_seconds(CLIENTS[pace]) == pytest.approx(pace)

    def test_stream_is_limited_by_step_and_replica_by_token_rate(self) -> None:
        assert step_seconds(1) == STEP_SECONDS
        assert 600 / step_seconds(600) == TOKENS_PER_SECOND

    async def test_an_answer_has_vllms_chunks_and_exactly_the_tokens_asked_for(self) -> None:
        first, *tokens, usage, done = await events(5)
        documents = [json.loads(event.removeprefix("data: ")) for event in (first, *tokens, usage)]
        assert [set(each) for each in documents[1:-1]] == [
            {"id", "object", "created", "model", "choices"}
        ] * len(tokens)
        assert documents[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        choices = [each["choices"][0] for each in documents[1:-1]]
        assert "".join(choice["delta"]["content"] for choice in choices).split() == ["token"] * 5
        assert [choice["finish_reason"] for choice in choices] == [None] * (len(tokens) - 1) + ["length"]
        assert documents[-1]["usage"] == {"prompt_tokens": 7, "total_tokens": 12, "completion_tokens": 5}
        assert done == "data: [DONE]\n\n"

    async def test_a_late_reader_finds_several_tokens_in_one_chunk(self) -> None:
        paced = Paced()
        tokens = paced.tokens(8)
        found = [await anext(tokens)]
        await asyncio.sleep(20 * STEP_SECONDS)
        found += [count async for count in tokens]
        assert (sum(found), len(found)) == (8, 2)
        assert paced.unfinished == 0

    async def test_token_rate_does_not_exceed_pace(self) -> None:
        found = await alone(streams=4, seconds=0.5, tokens=10)
        assert found["tokens_per_second"] <= 1.01 * 4 / STEP_SECONDS
        assert found["tokens_per_chunk"] >= 1


def test_worker_for_several_replicas_differs_only_in_size(tmp_path: Path) -> None:
    one = render(Wish(SAMPLE, tmp_path / "tiny"), port=8000, cache=tmp_path)
    eight = several(one, 8, 8)
    scaling = eight.deployment["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"]) == (8, 8)
    assert one.deployment["autoscaling_config"]["max_replicas"] == 1, "the first one stays as it was"
    changed = dict(zip(one.worker.ray_start, eight.worker.ray_start, strict=True))
    assert {before: after for before, after in changed.items() if before != after} == {
        "--num-cpus=2": "--num-cpus=16",
        '--resources={"model-tiny": 1.0}': '--resources={"model-tiny": 8.0}',
    }


def paced(path: str, pace: int, replicas: int, tokens: float, **used: float) -> dict[str, Any]:
    """Return a run with the stub engine."""
    return {
        "round": 1,
        "path": path,
        "pace": pace,
        "replicas": replicas,
        "tokens_per_second": tokens,
        "ttft_p50_ms": 12.0,
        "cores": used,
    }


def tiny(path: str, number: int, requests: float) -> dict[str, Any]:
    """Return a run with vLLM."""
    figures = {"requests_per_second": requests, "tokens_per_second": 60 * requests, "ttft_p50_ms": 40.0}
    return {"round": number, "engine": "vllm", "path": path, **figures}


@pytest.fixture
def runs() -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = [
        {"path": "alone", "streams": streams, "cpu_ms_per_1000_tokens": 30.0} for streams in CLIENTS.values()
    ]
    for pace in CLIENTS:
        for replicas in (1, 8):
            served = pace * replicas
            # 630 ms or 130 ms for 1,000 tokens, of which the stub engine takes 30.
            found.append(
                paced(
                    "today",
                    pace,
                    replicas,
                    served,
                    proxy=2e-4 * served,
                    ingress=3e-4 * served,
                    replica=1.3e-4 * served,
                )
            )
            found.append(
                paced(
                    "direct", pace, replicas, served, gateway=1e-5 * served, replica=1.2e-4 * served, ray=1.0
                )
            )
    for number, (ours, other) in enumerate([(9.0, 10.0), (9.9, 10.0), (11.0, 10.0)], start=1):
        found += [tiny("direct", number, ours), tiny("vllm-serve", number, other)]
    return found


def test_every_goal_has_its_measure(runs: list[Mapping[str, Any]]) -> None:
    assert set(goals(8)) <= set(measures(runs))


def test_cpu_time_counts_request_path_without_stub_engine(runs: list[Mapping[str, Any]]) -> None:
    found = measures(runs)
    assert found["today_600_x1_cpu_ms_per_1000_tokens"] == pytest.approx(600)
    assert found["direct_600_x1_cpu_ms_per_1000_tokens"] == pytest.approx(100)
    assert found["cpu_ratio_600_x1"] == pytest.approx(1 / 6)
    assert found["direct_600_x8_to_x1"] == pytest.approx(8)
    assert cpu_ms(paced("direct", 600, 1, 500.0, replica=0.1, controller=9.0)) == pytest.approx(200)


def test_vllm_runs_are_compared_round_by_round(runs: list[Mapping[str, Any]]) -> None:
    found = measures(runs[::-1])
    assert found["tiny_requests_ratio"] == pytest.approx(0.99)
    assert found["tiny_direct_requests_per_second"] == 9.9
