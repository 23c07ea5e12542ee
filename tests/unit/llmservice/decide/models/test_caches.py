"""Weights that a Job copies into a PVC: when pods may be created, and the status until then."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from daybreak.api.common import names, volume_names
from daybreak.api.common.conditions import ConditionType
from daybreak.api.llmservice.status import ModelState
from daybreak.api.ray.cache import CachePhase
from daybreak.kinds.llmservice.decide.caches import caches, unfilled
from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.kinds.llmservice.observe.observed import CopyReport
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    OTHER_MODEL,
    PLATFORM,
    Manifest,
    World,
    conditions,
    manifest,
    message,
    pod,
    running,
    service,
    started,
)
from tests.unit.llmservice.decide.scenes.sleeping import asleep, gate, view
from tests.unit.llmservice.decision import Decision

SOURCE = "s3://bucket/tiny"
CACHED: Manifest = {**CPU_MODEL, "source": SOURCE, "cache": {"size": "1Gi"}}
SHARED: Manifest = {**CPU_MODEL, "source": SOURCE, "cache": {"claimName": "models"}}
CLAIM: Manifest = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "chat-tiny-weights", "namespace": "default", "uid": "claim-1"},
}
TOLD = json.dumps({"bytes": 42, "revision": "abc"})


def job(model: Manifest = CACHED, *, complete: bool = False, **status: Any) -> Manifest:
    """Return the Job of a model as the API server returns it."""
    svc = service(model)
    [made] = [each for each in desired(svc, PLATFORM, None, unfilled=["tiny"]) if each["kind"] == "Job"]
    report: Manifest = {"startTime": "2026-11-21T12:00:00Z", **status}
    if complete:
        report |= {
            "completionTime": "2026-11-21T12:05:00Z",
            "conditions": [{"type": "Complete", "status": "True"}],
        }
    return {**made, "status": report}


def job_pod(of: Manifest, *, restarts: int = 0, last: Manifest | None = None, **state: Any) -> Manifest:
    """Return the pod of a Job whose container is in the given state."""
    container = {"name": "fill", "image": "ray:1", "restartCount": restarts, "state": state}
    if last is not None:
        container["lastState"] = {"terminated": last}
    found = pod("fill-1", status={"phase": "Running", "containerStatuses": [container]})
    found["metadata"]["labels"] = {
        **names.owner_labels("chat"),
        "batch.kubernetes.io/job-name": of["metadata"]["name"],
    }
    return found


def ended(status: int, words: str) -> Manifest:
    """Return the state of a terminated container."""
    return {"exitCode": status, "reason": "Error" if status else "Completed", "message": words}


def cache(decision: Decision) -> Any:
    """Return the cache status of the first model."""
    return decision.status.models[0].cache


def complete(world: World, model: Manifest = CACHED) -> Decision:
    """Return the world after the Job has succeeded."""
    done = job(model, complete=True)
    return world.step(jobs=(done,), pods=(job_pod(done, terminated=ended(0, TOLD)),), claims=(CLAIM,))


def test_cache_fill_is_reported_until_weights_are_available() -> None:
    world = World(manifest(CACHED))
    first = world.step()
    assert conditions(first)["Ready"] == "Unknown/FillingCache"
    assert conditions(first)["Reconciling"] == "True/FillingCache"
    assert conditions(first)["Stalled"] == "False/Reconciled"
    assert first.apply
    assert cache(first).phase is CachePhase.PENDING

    copying = world.step(claims=(CLAIM,), jobs=(job(),), pods=(job_pod(job(), running={}),))
    assert cache(copying).phase is CachePhase.FILLING
    assert cache(copying).start_time == "2026-11-21T12:00:00Z"
    assert copying.status.models[0].state is ModelState.PENDING
    assert not copying.ask
    assert f"copied from {SOURCE} into claim chat-tiny-weights" in message(copying)


def filled(copied: int, total: int | None) -> Mapping[str, CopyReport]:
    """Return the copy report of the Job's program."""
    return {"tiny": CopyReport(copied, total)}


def test_copied_bytes_are_reported_during_copy() -> None:
    world = World(manifest(CACHED))
    world.step()
    there: Any = {"claims": (CLAIM,), "jobs": (job(),), "pods": (job_pod(job(), running={}),)}
    listing = world.step(**there, copies=filled(0, None))
    assert (cache(listing).copied, cache(listing).percent, cache(listing).bytes) == (0, None, None)
    gib = 2**30
    copying = world.step(**there, copies=filled(3 * gib, 8 * gib))
    assert (cache(copying).copied, cache(copying).percent, cache(copying).bytes) == (3 * gib, 37, 8 * gib)
    assert "into claim chat-tiny-weights: 3.0 of 8.0 GiB (37 %)" in message(copying)
    assert "(37 %)" in message(copying, ConditionType.RECONCILING)

    unheard = world.step(**there, copies={})
    assert cache(unheard) == cache(copying), "what was said stays until something else is"
    failed = job_pod(job(), restarts=1, last=ended(1, "no route"), waiting={"reason": "CrashLoopBackOff"})
    tried_again = world.step(claims=(CLAIM,), jobs=(job(),), pods=(failed,), copies={})
    assert (cache(tried_again).phase, cache(tried_again).percent) == (CachePhase.FAILED, 37)

    done = complete(world)
    assert (cache(done).copied, cache(done).percent, cache(done).bytes) == (None, None, 42)


def test_copied_percent_is_reset_when_source_changes() -> None:
    world = World(manifest(CACHED))
    there: Any = {"claims": (CLAIM,), "jobs": (job(),), "pods": (job_pod(job(), running={}),)}
    world.step(**there, copies=filled(1, 4))
    world.edit(manifest({**CACHED, "source": f"{SOURCE}-2"}))
    assert cache(world.step(jobs=(), pods=(), copies={})).percent is None


def test_complete_copy_is_recorded_and_needs_no_job() -> None:
    world = World(manifest(CACHED))
    world.step()
    done = complete(world)
    assert cache(done).model_dump() == {
        "phase": CachePhase.COMPLETE,
        "claim": "chat-tiny-weights",
        "claim_uid": "claim-1",
        "path": volume_names.cached_weights(SOURCE, None),
        "revision": "abc",
        "bytes": 42,
        "copied": None,
        "percent": None,
        "start_time": "2026-11-21T12:00:00Z",
        "completion_time": "2026-11-21T12:05:00Z",
    }
    assert conditions(done)["Ready"] == "Unknown/Progressing"
    kept = world.step(jobs=(), pods=())
    assert cache(kept) == cache(done)
    assert world.observed.subject is not None
    assert unfilled(caches(world.observed, world.observed.subject)) == ()


def test_copy_is_complete_only_after_job_pod_has_ended() -> None:
    """Jobs and pods have separate watches, and the copied amount is in the pod."""
    world = World(manifest(CACHED))
    done = job(complete=True)
    early = world.step(jobs=(done,), pods=(job_pod(done, running={}),), claims=(CLAIM,))
    assert cache(early).phase is CachePhase.FILLING
    assert cache(complete(world)).bytes == 42


@pytest.mark.parametrize(
    ("change", "model"),
    [
        ("source", {**CACHED, "source": "s3://bucket/other"}),
        ("claim", SHARED),
        ("revision", {**CACHED, "source": "hf://a/b", "revision": "1"}),
    ],
)
def test_recorded_copy_is_ignored_if_source_or_claim_changes(change: str, model: Manifest) -> None:
    world = World(manifest(CACHED))
    complete(world)
    world.edit(manifest(model))
    assert cache(world.step(jobs=(), pods=())).phase is CachePhase.PENDING, change


def test_recreated_claim_of_same_name_is_filled_again() -> None:
    world = World(manifest(CACHED))
    complete(world)
    other = {**CLAIM, "metadata": {**CLAIM["metadata"], "uid": "claim-2"}}
    assert cache(world.step(jobs=(), pods=(), claims=(other,))).phase is CachePhase.PENDING


@pytest.mark.parametrize(
    ("status", "restarts", "stalled"), [(2, 0, True), (1, 0, False), (1, 4, False), (1, 5, True)]
)
def test_failed_copy_is_reported_with_reason(status: int, restarts: int, stalled: bool) -> None:
    world = World(manifest(CACHED))
    last = ended(status, "hf://a/b is gated: accept its terms")
    backing_off = job_pod(job(), restarts=restarts, last=last, waiting={"reason": "CrashLoopBackOff"})
    failed = world.step(jobs=(job(),), pods=(backing_off,), claims=(CLAIM,))
    assert cache(failed).phase is CachePhase.FAILED
    assert conditions(failed)["Ready"] == "False/CacheFailed"
    assert "is gated: accept its terms" in message(failed)
    assert conditions(failed)["Stalled"] == ("True/CacheFailed" if stalled else "False/Reconciled")
    again = world.step(pods=(job_pod(job(), restarts=restarts, last=last, running={}),))
    assert conditions(again) == conditions(failed), "a new try is no news"
    assert conditions(complete(world))["Stalled"] == "False/Reconciled"


def test_container_config_error_of_job_pod_is_reported() -> None:
    world = World(manifest(CACHED))
    missing = job_pod(
        job(), waiting={"reason": "CreateContainerConfigError", "message": 'secret "hub" not found'}
    )
    found = world.step(jobs=(job(),), pods=(missing,), claims=(CLAIM,))
    assert conditions(found)["Ready"] == "False/ContainerConfigFailed"
    assert 'secret "hub" not found' in message(found)
    assert cache(found).phase is CachePhase.PENDING


def test_a_running_service_goes_on_while_new_weights_are_copied() -> None:
    world = World(manifest({**CPU_MODEL, "source": SOURCE}))
    started(world)
    before = world.observed.ray_service
    world.edit(manifest(CACHED))
    changed = world.step(claims=(CLAIM,))
    assert world.observed.ray_service == before
    assert conditions(changed)["Ready"] == "True/Serving"
    assert conditions(changed)["Reconciling"] == "True/FillingCache"
    assert changed.status.models[0].state is ModelState.UPDATING
    assert not changed.ask


def test_other_model_reports_wait_for_weights() -> None:
    world = World(manifest(CACHED, OTHER_MODEL))
    report = world.step().status.models[1]
    assert report.message == "it waits until the weights of tiny are available"
    assert report.cache is None


def test_waking_model_is_not_probed_before_copy_is_complete() -> None:
    world = asleep()
    world.edit(manifest(CACHED, sleep={"afterIdle": "10m"}))
    world.step(claims=(CLAIM,))
    woken = world.step(gateway=view(held=1))
    assert gate(woken) == ("Waking", "Closed", None)
    waiting = world.step()
    assert not waiting.ask
    assert conditions(waiting)["Ready"] == "True/Waking"
    assert "is being made" in message(waiting, ConditionType.RECONCILING)


def test_failed_copy_is_reported_to_clients_that_wake_model() -> None:
    world = asleep()
    world.edit(manifest(CACHED, sleep={"afterIdle": "10m"}))
    failed = job_pod(
        job(), last=ended(2, "the bucket is gone"), waiting={"reason": "CrashLoopBackOff"}, restarts=1
    )
    still = world.step(claims=(CLAIM,), jobs=(job(),), pods=(failed,))
    assert gate(still) == ("Asleep", "Closed", "Workers")
    assert conditions(still)["Stalled"] == "True/CacheFailed"
    world.step(gateway=view(held=1))
    refused = world.step()
    assert gate(refused) == ("Failed", "Failed", None)
    assert refused.status.gate is not None
    assert "the bucket is gone" in (refused.status.gate.models[0].reason or "")


def test_cache_status_is_unchanged_if_spec_is_invalid() -> None:
    world = World(manifest(CACHED))
    done = complete(world)
    world.edit(manifest(CACHED, nonsense=True))
    assert cache(world.step()) == cache(done)


def test_service_with_complete_cache_becomes_ready() -> None:
    world = World(manifest(CACHED))
    complete(world)
    up = world.step(ray_service=running(world), pods=(pod("head", model=None), pod()), jobs=())
    assert up.ask == ("tiny",)
    ready = world.step(answers={"tiny": True})
    assert conditions(ready)["Ready"] == "True/Serving"
    assert conditions(ready)["Reconciling"] == "False/Reconciled"


def test_job_of_another_model_with_same_weights_is_ignored() -> None:
    world = World(manifest(SHARED, {**SHARED, "name": "other"}))
    done = job(SHARED, complete=True)
    decision = world.step(jobs=(done,), pods=(job_pod(done, terminated=ended(0, TOLD)),))
    states = {model.name: model.cache.phase for model in decision.status.models if model.cache}
    assert states == {"tiny": CachePhase.COMPLETE, "other": CachePhase.PENDING}


def test_job_with_deletion_timestamp_is_ignored() -> None:
    leaving = job(complete=True)
    leaving["metadata"] = {**leaving["metadata"], "deletionTimestamp": "2026-11-21T12:06:00Z"}
    world = World(manifest(CACHED))
    world.observed = replace(world.observed, jobs=(leaving,), claims=(CLAIM,))
    assert cache(world.step()).phase is CachePhase.PENDING


QUOTA = 'pods "chat-weights-" is forbidden: failed quota: team: must specify limits.cpu for: fill'


def rejected(message: str) -> Mapping[str, str]:
    """Return a rejection of the Job's pod."""
    return {job()["metadata"]["name"]: message}


def test_rejected_pod_of_the_job_is_quoted_with_the_field() -> None:
    """The events of the Job alone have the reason."""
    world = World(manifest(CACHED))
    world.step()
    decision = world.step(claims=(CLAIM,), jobs=(job(),), rejections=rejected(QUOTA))
    assert conditions(decision)["Ready"] == "False/ObjectRejected"
    assert conditions(decision)["Stalled"] == "True/ObjectRejected"
    assert QUOTA in message(decision)
    assert "container fill in spec.models[].cache.podTemplate" in message(decision)
    assert cache(decision).phase is CachePhase.PENDING


def test_temporary_rejection_does_not_stall_service() -> None:
    world = World(manifest(CACHED))
    world.step()
    decision = world.step(claims=(CLAIM,), jobs=(job(),), rejections=rejected("context deadline exceeded"))
    assert "context deadline exceeded" in message(decision)
    assert conditions(decision)["Stalled"].startswith("False")


def test_rejection_is_cleared_when_job_pod_exists() -> None:
    world = World(manifest(CACHED))
    world.step()
    world.step(claims=(CLAIM,), jobs=(job(),), rejections=rejected(QUOTA))
    there = (job_pod(job(), running={}),)
    decision = world.step(claims=(CLAIM,), jobs=(job(),), pods=there, rejections=rejected(QUOTA))
    assert cache(decision).phase is CachePhase.FILLING
    assert "quota" not in message(decision)
    assert conditions(decision)["Stalled"] == "False/Reconciled"
