"""The best settings as a patch of the LLMService, and the status of the patch and its rollout."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from daybreak.api.gates.rollout import RolloutPhase, RolloutStatus
from daybreak.api.llmbenchmark.status import (
    BenchmarkPhase,
    GainStatus,
    LLMBenchmarkStatus,
    PatchState,
    PatchStatus,
    StepStatus,
)
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmbenchmark.decide.patch import ObservedPatch, decide, fields, is_written, refused
from daybreak.kinds.llmbenchmark.objects.target import measured, target
from daybreak.kinds.llmbenchmark.status.patch import events, report
from tests.unit.llmbenchmark.benchmarks import benchmark, of_service, service

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OF_SERVICE = of_service() | {"applyMode": "Patch"}
BEST = {"max_num_seqs": 128}


def observe(svc: LLMService | None = None, patch: PatchStatus | None = None, **status: Any) -> ObservedPatch:
    found = benchmark(**OF_SERVICE)
    svc = svc or service()
    whole = {
        "phase": BenchmarkPhase.SUCCEEDED,
        "completion_time": "2026-01-01T00:00:00Z",
        "recommended": BEST,
        "gain": GainStatus(ratio=2.0, noise=0.05, significant=True),
        "engine_hash": measured(target(found, service())),
        "patch": patch,
        **status,
    }
    return ObservedPatch(found, LLMBenchmarkStatus().model_copy(update=whole), NOW, svc)


def begun() -> PatchStatus:
    decision = decide(observe())
    assert decision is not None
    return decision.status


def with_args(generation: int, **args: Any) -> LLMService:
    return replace(service(engine={"args": args}), generation=generation)


def test_first_decision_records_new_and_previous_args_before_write() -> None:
    decision = decide(observe())
    assert decision is not None
    assert not decision.write
    assert (decision.status.state, decision.status.args) == (PatchState.WRITING, BEST)
    assert decision.status.previous_args == {"max_num_seqs": 64}
    assert fields(decision.status) == {"spec": {"models": [{"name": "big", "engine": {"args": BEST}}]}}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"recommended": {}}, "own arguments are the best"),
        ({"recommended": {"dtype": "float16"}}, "own arguments are the best"),
        ({"gain": GainStatus(ratio=1.01, noise=0.05, significant=False)}, "not better beyond noise"),
        ({"gain": None}, "not better beyond noise"),
        ({"engine_hash": "another"}, "has changed since the measurement"),
    ],
)
def test_settings_are_not_written_without_gain_or_after_change(status: dict[str, Any], words: str) -> None:
    decision = decide(observe(**status))
    assert decision is not None
    assert decision.status.state is PatchState.NOT_WRITTEN
    assert words in (decision.status.message or "")
    assert decide(observe(patch=decision.status)) is None, "that is the end of it"


SLOW = StepStatus(clients=8, requests=90, failure="p99 of TTFT is 900 ms, above 500 ms")
FAST = StepStatus(settings=BEST, clients=8, requests=99)


def test_baseline_that_exceeds_limit_is_replaced_without_gain() -> None:
    decision = decide(observe(gain=None, best=FAST, steps=[SLOW, FAST]))
    assert decision is not None
    assert (decision.status.state, decision.status.args) == (PatchState.WRITING, BEST)
    assert "p99 of TTFT is 900 ms, above 500 ms" in (decision.status.message or "")


@pytest.mark.parametrize(
    "status",
    [
        {"gain": None, "best": FAST, "steps": [FAST]},
        {"gain": None, "best": FAST, "steps": [StepStatus(failure="no engine started"), FAST]},
        {"gain": None, "best": FAST, "baseline": SLOW, "steps": [SLOW, FAST]},
        {"gain": None, "steps": [SLOW]},
        {"gain": GainStatus(ratio=1.01, noise=0.05, significant=False), "best": FAST, "steps": [SLOW, FAST]},
    ],
)
def test_unmeasured_or_valid_baseline_is_kept_without_gain(
    status: dict[str, Any],
) -> None:
    decision = decide(observe(**status))
    assert decision is not None
    assert decision.status.state is PatchState.NOT_WRITTEN


def test_patch_is_not_written_if_service_has_changed() -> None:
    decision = decide(observe(with_args(2, max_num_seqs=64, max_model_len=512)))
    assert decision is not None
    assert decision.status.state is PatchState.NOT_WRITTEN


def test_patch_is_written_if_only_replicas_have_changed() -> None:
    decision = decide(observe(service(replicas={"min": 3})))
    assert decision is not None
    assert decision.status.state is PatchState.WRITING


@pytest.mark.parametrize(
    "change",
    [
        {"phase": BenchmarkPhase.FAILED},
        {"phase": BenchmarkPhase.RUNNING, "completion_time": None},
    ],
)
def test_failed_or_running_benchmark_has_no_patch_decision(change: dict[str, Any]) -> None:
    assert decide(observe(**change)) is None


def test_benchmark_without_patch_mode_has_no_patch_decision() -> None:
    plain = replace(observe(), benchmark=benchmark(**of_service()))
    assert decide(plain) is None


def test_announced_patch_is_written_once_after_operator_restart() -> None:
    before = decide(observe(patch=begun()))
    assert before is not None
    assert before.write, "the service is as before: it was not written"
    after = decide(observe(with_args(2, max_num_seqs=128), patch=begun()))
    assert after is not None
    assert not after.write, "the service has it: it was written"
    assert (after.status.state, after.status.generation) == (PatchState.ROLLING_OUT, 2)
    other = decide(observe(with_args(2, max_num_seqs=7), patch=begun()))
    assert other is not None
    assert (other.write, other.status.state) == (False, PatchState.OVERWRITTEN)


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        (RolloutPhase.PROGRESSING, PatchState.ROLLING_OUT),
        (RolloutPhase.ROLLING_BACK, PatchState.ROLLING_OUT),
        (RolloutPhase.COMPLETE, PatchState.ROLLED_OUT),
        (RolloutPhase.ROLLED_BACK, PatchState.ROLLED_BACK),
        (RolloutPhase.FAILED, PatchState.ROLLOUT_FAILED),
    ],
)
def test_patch_state_follows_rollout_of_service(phase: RolloutPhase, state: PatchState) -> None:
    rollout = RolloutStatus(phase=phase, current_revision="chat-1", message="it says why")
    now = observe(with_args(2, max_num_seqs=128), patch=is_written(begun(), 2))
    stale = decide(replace(now, observed_generation=1, rollout=rollout))
    assert stale is not None
    assert stale.status.state is PatchState.ROLLING_OUT, "the service has not observed the patch yet"
    decision = decide(replace(now, observed_generation=2, rollout=rollout))
    assert decision is not None
    assert (decision.write, decision.status.state) == (False, state)
    assert "before: max_num_seqs=64" in (decision.status.message or "")


def test_later_change_by_another_client_is_not_overwritten() -> None:
    decision = decide(observe(with_args(3, max_num_seqs=32), patch=is_written(begun(), 2)))
    assert decision is not None
    assert (decision.write, decision.status.state) == (False, PatchState.OVERWRITTEN)
    older = decide(observe(service(), patch=is_written(begun(), 2)))
    assert older is not None
    assert older.status.state is PatchState.ROLLING_OUT, "the watch has not brought the write yet"


def test_applied_condition_is_reported_and_each_state_emits_one_event() -> None:
    patch = begun()
    after = report(observe().status, patch, NOW, 1)
    [condition] = [each for each in after.conditions if each.type == "Applied"]
    assert (condition.status, condition.reason) == ("False", "Writing")
    assert [each.reason for each in events(observe().status, patch)] == ["Writing"]
    assert events(after, patch) == []
    [bad] = events(after, refused(patch, "no right", forbidden=True))
    assert bad.warning
    assert "benchmarks.patchServices" in bad.note
