"""Revisions: which are kept, and that they are what the person had written."""

import json

from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.revisions import (
    applied,
    built_of,
    content,
    controller_revision,
    with_own,
)
from daybreak.rollouts.revisions import Revision, kept, read
from tests.unit.llmservice.decide.scenes.services import CPU_MODEL, OTHER_MODEL, manifest, service


def test_revision_numbers_increase_and_existing_revision_keeps_number() -> None:
    first, known = with_own(service(CPU_MODEL), ())
    second, known = with_own(service(OTHER_MODEL), known)
    again, known = with_own(service(CPU_MODEL), known)
    assert (first.number, second.number) == (1, 2)
    assert again == first
    assert [each.number for each in known] == [1, 2]
    assert first.name.startswith("chat-")


def test_replicas_sleep_and_rollout_are_not_part_of_revision() -> None:
    first, known = with_own(service(CPU_MODEL), ())
    scaled = service(CPU_MODEL, replicas=3, sleep={"afterIdle": "1m"}, rollout={"strategy": "Replace"})
    assert with_own(scaled, known)[0] == first


def test_applied_revision_restores_models_and_runtime_and_keeps_replicas() -> None:
    old = service({**CPU_MODEL, "engine": {"args": {"max_model_len": 128}}}, runtime={"image": "ray:1"})
    revision, known = with_own(old, ())
    new = service(OTHER_MODEL, runtime={"image": "ray:2"}, replicas=3)
    built = applied(new, revision.name, known)
    assert built is not None
    assert (built.spec.models, built.spec.runtime) == (old.spec.models, old.spec.runtime)
    assert built.spec.replicas == 3
    assert content(built) == revision.data
    assert applied(old, revision.name, known) is None, "as it is written"
    assert applied(new, "chat-unknown", known) is None


def test_invalid_revision_content_builds_no_service() -> None:
    assert built_of(service(CPU_MODEL), Revision("r", 1, {"models": [{"nonsense": True}]})) is None


def test_controller_revision_is_read_back_unless_being_deleted() -> None:
    svc = LLMService.from_manifest(manifest(CPU_MODEL))
    revision, _ = with_own(svc, ())
    made = controller_revision(svc, revision)
    assert read([made]) == (revision,)
    assert made["metadata"]["ownerReferences"][0]["controller"]
    assert made["metadata"]["labels"]["daybreak.dev/owner-name"] == "chat"
    assert json.dumps(made["data"]) == json.dumps(made["data"], sort_keys=True), "as the API server writes it"
    leaving = {**made, "metadata": {**made["metadata"], "deletionTimestamp": "2026-11-23T09:00:00Z"}}
    assert read([leaving]) == ()


def test_revisions_in_use_and_newest_others_are_kept() -> None:
    every = [Revision(f"r{number}", number, {}) for number in range(1, 8)]
    stay = kept(every, {"r1", "r7", None}, 2)
    assert [each.name for each in stay] == ["r1", "r5", "r6", "r7"]
