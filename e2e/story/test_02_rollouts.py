"""Changes under load, with no room beside what runs: nobody is refused, and what cannot start goes back."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from story.objects.kubernetes import Kubernetes, eventually
from story.test_02_changes import asked_all_the_time, ray_cluster

PATIENCE = 900.0
"""How long a client waits for an answer, in seconds: longer than a request is held."""


@pytest.fixture
def patient(kubernetes: Kubernetes, tiny: str) -> Iterator[OpenAI]:
    """A client with connections that stay open, to the service's address as it is reached from the node."""
    found = kubernetes.get("service", tiny) or {}
    base = f"http://{found['spec']['clusterIP']}/v1"
    with OpenAI(base_url=base, api_key="none", max_retries=0, timeout=PATIENCE) as client:
        yield client


def rollout(kubernetes: Kubernetes, name: str) -> dict[str, Any]:
    """What the status says of the rollout."""
    found: dict[str, Any] = (kubernetes.get("llm", name) or {})["status"].get("rollout") or {}
    return found


def reaches(kubernetes: Kubernetes, name: str, phase: str, number: int) -> dict[str, Any]:
    """Wait until the rollout has a phase, and runs the revision of a number."""
    return eventually(
        lambda: rollout(kubernetes, name),
        lambda seen: (seen.get("phase"), seen.get("number")) == (phase, number),
        minutes=10,
    )


def test_pods_are_replaced_under_load_and_a_broken_argument_goes_back(
    kubernetes: Kubernetes, tiny: str, patient: OpenAI, tiny_manifest: dict[str, Any]
) -> None:
    model = tiny_manifest["spec"]["models"][0]
    first = ray_cluster(kubernetes, tiny)
    before = rollout(kubernetes, tiny)["number"]
    good = (kubernetes.get("llm", tiny) or {})["spec"]["models"]
    began = time.monotonic()
    with asked_all_the_time(patient, model["name"]) as answers:
        # New pods, and no second cluster.
        env = [{"name": "ROLLED", "value": "out"}]
        kubernetes.patch(tiny, {"spec": {"rollout": {"strategy": "Replace"}, "runtime": {"env": env}}})
        said = reaches(kubernetes, tiny, "Complete", before + 1)
        assert said["strategy"] == "Replace"
        second = ray_cluster(kubernetes, tiny)
        assert second != first
        replaced = time.monotonic()
        asked = len(answers)
        eventually(lambda: len(answers), lambda seen: seen >= asked + 8)

        # The engine refuses this, which nobody can know before: the model has not so many positions.
        broken = {**model, "engine": {"args": {**model["engine"]["args"], "max_model_len": 1_000_000}}}
        broken_at = time.monotonic()
        kubernetes.patch(tiny, {"spec": {"models": [broken]}})
        said = reaches(kubernetes, tiny, "RolledBack", before + 1)
        back = time.monotonic()
        assert "max_model_len" in said["message"]
        stalled = kubernetes.condition(tiny, "Stalled")
        assert (stalled["status"], stalled["reason"]) == ("True", "RolledBack")
        assert kubernetes.condition(tiny, "Ready")["status"] == "True"
        asked = len(answers)
        eventually(lambda: len(answers), lambda seen: seen >= asked + 8)
    # Every request of every client was answered: the first that failed would have been raised.
    assert all(tokens > 0 for tokens in answers)
    print(
        f"rollouts: {len(answers)} answered, replaced in {replaced - began:.0f} s, "
        f"back {back - broken_at:.0f} s after a broken argument"
    )
    kept = kubernetes.names("controllerrevisions", "-l", f"daybreak.dev/service={tiny}")
    assert len(kept) >= 3
    kubernetes.patch(tiny, {"spec": {"models": good, "rollout": {"strategy": "Auto"}}})
    reaches(kubernetes, tiny, "Complete", before + 1)
    assert kubernetes.condition(tiny, "Stalled")["status"] == "False"
