"""Invariants of every decision, for any observation in any order."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from daybreak.api.llmservice.status import LLMServiceStatus
from daybreak.kinds.llmservice.decide.fingerprint import Fingerprint
from daybreak.ray.views.ray_service_view import ray_view
from tests.property.lives import walk
from tests.unit.llmservice.decision import Decision, decide


def truth(decision: Decision) -> dict[str, str]:
    return {item.type: item.status for item in decision.status.conditions}


@given(st.data())
def test_ready_requires_answer_of_every_model_in_current_configuration(data: st.DataObject) -> None:
    for observed, decision, came, _ in walk(data, 12):
        ray = ray_view(observed.ray_service)
        answered_before = {
            item["name"]: item.get("probedConfiguration")
            for item in (observed.manifest.get("status") or {}).get("models", ())
        }
        answered_now = {answer.model for answer in came if answer.answered}
        for model in decision.status.models:
            if model.probed_configuration and model.probed_configuration != answered_before.get(model.name):
                assert model.name in answered_now, "an answer that nobody has given"
                assert model.name in decide(observed).ask, "an answer that nobody had asked for"
                assert model.probed_configuration == str(Fingerprint.now(ray))
        if truth(decision)["Ready"] != "True":
            continue
        assert ray.active
        assert ray.ready
        assert observed.subject is not None
        assert observed.problems == ()
        assert decision.status.observed_generation == observed.manifest["metadata"]["generation"]
        assert {model.name for model in decision.status.models} == {
            model.name for model in observed.subject.spec.models
        }
        for model in decision.status.models:
            as_what = Fingerprint.parse(model.probed_configuration or "")
            if as_what is None or as_what.cluster != ray.active:
                assert (observed.subject.spec.replicas, model.state) == (0, "Asleep")
            elif not ray.upgrading and model.state != "Asleep":
                assert as_what.configuration == ray.configuration


@given(st.data())
def test_status_is_unchanged_if_only_time_passes(data: st.DataObject) -> None:
    """Nor does a second decision: the messages stay the same."""
    for _, decision, _, world in walk(data, 6):
        for later in (0.0, 1.0, 86_400.0):
            observed = replace(world.observed, now=world.observed.now + timedelta(seconds=later))
            again = decide(observed)
            assert again.status == decision.status


@given(st.data())
def test_conditions_follow_kstatus_rules_for_any_observation(data: st.DataObject) -> None:
    for observed, decision, _, _ in walk(data, 8):
        found = truth(decision)
        assert list(found) == ["Ready", "Active", "Schedulable", "Reconciling", "Stalled"]
        assert not (found["Stalled"] == "True" and found["Reconciling"] == "True")
        # Scaled to 0 without a gateway it is down, as a person wants it.
        [ready] = [item for item in decision.status.conditions if item.type == "Ready"]
        down = ready.reason == "Asleep"
        assert found["Ready"] == "True" or down or "True" in (found["Stalled"], found["Reconciling"])
        generation = observed.manifest["metadata"]["generation"]
        assert decision.status.observed_generation == generation
        assert {item.observed_generation for item in decision.status.conditions} == {generation}
        assert all(item.message and item.reason for item in decision.status.conditions)
        assert decision.requeue_after is None or decision.requeue_after > timedelta(0)
        assert decision.apply or not decision.ask
        written = decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert LLMServiceStatus.model_validate(written) == decision.status


@given(st.data())
def test_sleeping_model_is_never_probed(data: st.DataObject) -> None:
    for observed, decision, _, _ in walk(data, 8):
        for model in decision.status.models:
            if model.state == "Asleep":
                assert model.name not in decision.ask
        assert observed.subject is not None or decision.ask == ()
