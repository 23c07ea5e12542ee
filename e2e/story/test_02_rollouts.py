"""Changes under load without spare capacity: no request is rejected, and failed starts are rolled back."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openai import OpenAI

from story.objects.kubernetes import Kubernetes, eventually
from story.test_02_changes import asked_all_the_time, ray_cluster

PATIENCE = 900.0
"""Maximum wait of a client for an answer, in seconds: longer than a request is held."""


@pytest.fixture
def patient(kubernetes: Kubernetes, tiny: str) -> Iterator[OpenAI]:
    """Yield a client with persistent connections to the service's address, as reached from the node."""
    found = kubernetes.get("service", tiny) or {}
    base = f"http://{found['spec']['clusterIP']}/v1"
    with OpenAI(base_url=base, api_key="none", max_retries=0, timeout=PATIENCE) as client:
        yield client


def rollout(kubernetes: Kubernetes, name: str) -> dict[str, Any]:
    """Return the rollout in the status."""
    found: dict[str, Any] = (kubernetes.get("llm", name) or {})["status"].get("rollout") or {}
    return found


def reaches(kubernetes: Kubernetes, name: str, phase: str, number: int) -> dict[str, Any]:
    """Wait until the rollout has a phase and runs the revision with a number."""
    return eventually(
        lambda: rollout(kubernetes, name),
        lambda observed: (observed.get("phase"), observed.get("currentRevisionNumber")) == (phase, number),
        minutes=10,
    )


@pytest.fixture
def replacing(kubernetes: Kubernetes, tiny: str) -> Iterator[None]:
    """Make changes replace the pods, without a second Ray cluster."""
    kubernetes.patch(tiny, {"spec": {"rollout": {"strategy": "Replace"}}})
    yield
    kubernetes.patch(tiny, {"spec": {"rollout": {"strategy": "Auto"}}})


@pytest.mark.usefixtures("replacing")
def test_replace_rollout_under_load_answers_every_request(
    kubernetes: Kubernetes, tiny: str, patient: OpenAI, tiny_manifest: dict[str, Any]
) -> None:
    first = ray_cluster(kubernetes, tiny)
    before = rollout(kubernetes, tiny)["currentRevisionNumber"]
    began = time.monotonic()
    with asked_all_the_time(patient, tiny_manifest["spec"]["models"][0]["name"]) as answers:
        kubernetes.patch(tiny, {"spec": {"runtime": {"env": [{"name": "ROLLED", "value": "out"}]}}})
        message = reaches(kubernetes, tiny, "Complete", before + 1)
        assert message["strategy"] == "Replace"
        assert ray_cluster(kubernetes, tiny) != first
        replaced = time.monotonic()
        _answers_more(answers)
    # Every request of every client was answered: the first failure would have been raised.
    assert all(tokens > 0 for tokens in answers)
    print(f"rollouts: {len(answers)} answered, replaced in {replaced - began:.0f} s")


def _with_arguments(model: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return {**model, "engine": {"args": {**model["engine"]["args"], **arguments}}}


def exceed_positions(model: dict[str, Any]) -> dict[str, Any]:
    """Return an argument that only the engine can reject: the model has fewer positions."""
    return {"models": [_with_arguments(model, max_model_len=1_000_000)]}


def name_no_image(model: dict[str, Any]) -> dict[str, Any]:
    """Return an image that does not exist."""
    return {"runtime": {"image": "daybreak.invalid/no-such-image:1"}}


def leave_no_room_for_answers(model: dict[str, Any]) -> dict[str, Any]:
    """Return an engine that answers every request with an error: a prompt fills its whole length."""
    return {"models": [_with_arguments(model, max_model_len=1)]}


@pytest.mark.usefixtures("replacing")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(exceed_positions, "max_model_len", id="argument"),
        pytest.param(name_no_image, "no-such-image", id="image"),
        pytest.param(leave_no_room_for_answers, "nothing but errors", id="errors"),
    ],
)
def test_failing_change_is_rolled_back_under_load(
    kubernetes: Kubernetes,
    tiny: str,
    patient: OpenAI,
    tiny_manifest: dict[str, Any],
    change: Callable[[dict[str, Any]], dict[str, Any]],
    words: str,
) -> None:
    model = tiny_manifest["spec"]["models"][0]
    good = (kubernetes.get("llm", tiny) or {})["spec"]
    before = rollout(kubernetes, tiny)["currentRevisionNumber"]
    began = time.monotonic()
    with asked_all_the_time(patient, model["name"]) as answers:
        kubernetes.patch(tiny, {"spec": change(model)})
        message = reaches(kubernetes, tiny, "RolledBack", before)
        back = time.monotonic()
        assert words in message["message"]
        stalled = kubernetes.condition(tiny, "Stalled")
        assert (stalled["status"], stalled["reason"]) == ("True", "RolledBack")
        assert kubernetes.condition(tiny, "Ready")["status"] == "True"
        _answers_more(answers)
    assert all(tokens > 0 for tokens in answers)
    print(f"rollouts: {len(answers)} answered, back in {back - began:.0f} s after a change that fails")
    kept = kubernetes.names(
        "controllerrevisions", "-l", f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={tiny}"
    )
    assert len(kept) >= 3
    image = good.get("runtime", {}).get("image")
    kubernetes.patch(tiny, {"spec": {"models": good["models"], "runtime": {"image": image}}})
    reaches(kubernetes, tiny, "Complete", before)
    assert kubernetes.condition(tiny, "Stalled")["status"] == "False"


def _answers_more(answers: list[int]) -> None:
    requested = len(answers)
    eventually(lambda: len(answers), lambda observed: observed >= requested + 8)
