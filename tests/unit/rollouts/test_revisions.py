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


def test_numbers_count_up_and_what_was_there_before_keeps_its_own() -> None:
    first, known = with_own(service(CPU_MODEL), ())
    second, known = with_own(service(OTHER_MODEL), known)
    again, known = with_own(service(CPU_MODEL), known)
    assert (first.number, second.number) == (1, 2)
    assert again == first
    assert [each.number for each in known] == [1, 2]
    assert first.name.startswith("chat-")


def test_numbers_and_sleep_are_no_part_of_it() -> None:
    first, known = with_own(service(CPU_MODEL), ())
    scaled = service(CPU_MODEL, replicas=3, sleep={"afterIdle": "1m"}, rollout={"strategy": "Replace"})
    assert with_own(scaled, known)[0] == first


def test_a_service_of_another_revision_is_the_old_one_with_todays_rest() -> None:
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


def test_one_that_cannot_be_read_any_more_is_none() -> None:
    assert built_of(service(CPU_MODEL), Revision("r", 1, {"models": [{"nonsense": True}]})) is None


def test_a_controller_revision_reads_back() -> None:
    svc = LLMService.from_manifest(manifest(CPU_MODEL))
    revision, _ = with_own(svc, ())
    made = controller_revision(svc, revision)
    assert read([made]) == (revision,)
    assert made["metadata"]["ownerReferences"][0]["controller"]
    assert made["metadata"]["labels"]["daybreak.dev/owner-name"] == "chat"
    assert json.dumps(made["data"]) == json.dumps(made["data"], sort_keys=True), "as the API server writes it"
    leaving = {**made, "metadata": {**made["metadata"], "deletionTimestamp": "2026-11-23T09:00:00Z"}}
    assert read([leaving]) == ()


def test_what_is_in_use_is_kept_and_of_the_others_the_newest() -> None:
    every = [Revision(f"r{number}", number, {}) for number in range(1, 8)]
    stay = kept(every, {"r1", "r7", None}, 2)
    assert [each.name for each in stay] == ["r1", "r5", "r6", "r7"]
