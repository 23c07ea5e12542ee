"""LoRA adapters: names of their own, taken up beside requests, refused with reasons, waking their base."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from openai import NotFoundError, OpenAI

from cluster import images
from quickstart import chat
from story.kubernetes import NAMESPACE, Kubernetes, eventually

NAME, BASE = "adapters", "base"
ONE, TWO, LARGE = "one", "team/two", "large"


def adapter(name: str, folder: str) -> dict[str, str]:
    """An adapter from the image with the tiny model."""
    return {"name": name, "source": f"image://{images.references()['tiny-model']}#adapters/{folder}"}


def service() -> dict[str, Any]:
    """The LLMService with one adapter."""
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": NAME},
        "spec": {
            "models": [
                {
                    "name": BASE,
                    "source": "file:///models/tiny",
                    "accelerator": {"kind": "cpu"},
                    "engine": {"args": {"max_model_len": 1024, "max_num_seqs": 8}},
                    "lora": {"maxRank": 8, "maxLoaded": 2, "adapters": [adapter(ONE, "one")]},
                    "resources": {"cpu": "200m", "memory": "4Gi"},
                    "serve": {"gracefulShutdownTimeout": "5s"},
                }
            ],
            "runtime": {"head": {"resources": {"cpu": "200m", "memory": "3Gi"}}},
            "hold": {"timeout": "10m"},
        },
    }


@pytest.fixture(scope="module")
def manifest(installed: Kubernetes) -> Iterator[dict[str, Any]]:
    """The service, applied and ready."""
    written = service()
    installed.apply(written)
    try:
        installed.wait_ready(NAME)
        yield written
    finally:
        installed.delete("llm", NAME)


@pytest.fixture(scope="module")
def openai(kubernetes: Kubernetes, manifest: dict[str, Any]) -> Iterator[OpenAI]:
    """A client of the service."""
    with chat.connected(kubernetes.target, NAMESPACE, NAME, timeout=600) as client:
        yield client


def say(client: OpenAI, model: str) -> str:
    """What a model says to one question: the same at every time, and only with these weights."""
    answer = client.completions.create(
        model=model, prompt="Good morning", max_tokens=12, temperature=0, extra_body={"ignore_eos": True}
    )
    assert answer.model == model
    return answer.choices[0].text


def have(kubernetes: Kubernetes, manifest: dict[str, Any], *adapters: dict[str, str]) -> None:
    """Let the model have these adapters."""
    models = copy.deepcopy(manifest["spec"]["models"])
    models[0]["lora"]["adapters"] = list(adapters)
    kubernetes.patch(NAME, {"spec": {"models": models}})


def states(kubernetes: Kubernetes) -> dict[str, str]:
    """State of each adapter."""
    status = (kubernetes.get("llm", NAME) or {}).get("status", {})
    return {each["name"]: each["state"] for each in status["models"][0].get("lora", [])}


def pods(kubernetes: Kubernetes) -> dict[str, list[int]]:
    """Restarts of each container of the service's Ray pods, by the pod's identity."""
    found = kubernetes.get("pods", "-l", f"daybreak.dev/service={NAME}")
    assert found is not None
    return {
        pod["metadata"]["uid"]: [each["restartCount"] for each in pod["status"]["containerStatuses"]]
        for pod in found["items"]
    }


def names(client: OpenAI) -> set[str]:
    """The names that are listed."""
    return {model.id for model in client.models.list()}


def test_base_and_adapter_are_listed_and_differ(kubernetes: Kubernetes, openai: OpenAI) -> None:
    eventually(lambda: states(kubernetes), lambda seen: seen == {ONE: "Ready"})
    assert names(openai) == {BASE, ONE}
    assert say(openai, BASE) != say(openai, ONE)


def test_adapters_come_and_go_and_nothing_restarts(
    kubernetes: Kubernetes, manifest: dict[str, Any], openai: OpenAI
) -> None:
    before, base, one = pods(kubernetes), say(openai, BASE), say(openai, ONE)
    have(kubernetes, manifest, adapter(ONE, "one"), adapter(TWO, "two"))
    eventually(lambda: states(kubernetes), lambda seen: seen == {ONE: "Ready", TWO: "Ready"}, minutes=4)
    two = eventually(lambda: names(openai), lambda seen: TWO in seen) and say(openai, TWO)
    assert len({base, one, two}) == 3
    assert (say(openai, BASE), say(openai, ONE)) == (base, one)
    have(kubernetes, manifest, adapter(TWO, "two"))
    eventually(lambda: names(openai), lambda seen: seen == {BASE, TWO}, minutes=4)
    with pytest.raises(NotFoundError):
        say(openai, ONE)
    assert say(openai, TWO) == two
    assert pods(kubernetes) == before


def test_one_with_too_high_a_rank_is_refused_and_the_base_stays_ready(
    kubernetes: Kubernetes, manifest: dict[str, Any], openai: OpenAI
) -> None:
    have(kubernetes, manifest, adapter(TWO, "two"), adapter(LARGE, "rank-64"))
    eventually(lambda: states(kubernetes), lambda seen: seen == {TWO: "Ready", LARGE: "Refused"}, minutes=4)
    status = (kubernetes.get("llm", NAME) or {})["status"]
    ready = next(each for each in status["conditions"] if each["type"] == "Ready")
    assert ready["status"] == "True"
    assert "its rank is 64, and the model takes 8 at most" in ready["message"]
    assert names(openai) == {BASE, TWO}
    with pytest.raises(NotFoundError):
        say(openai, LARGE)


def test_an_adapter_wakes_its_base(kubernetes: Kubernetes, manifest: dict[str, Any], openai: OpenAI) -> None:
    two = say(openai, TWO)
    kubernetes.patch(NAME, {"spec": {"sleep": {"afterIdle": "5s"}}})
    eventually(lambda: states(kubernetes), lambda seen: seen.get(TWO) == "Asleep", minutes=5)
    kubernetes.patch(NAME, {"spec": {"sleep": {"afterIdle": "1h"}}})
    assert names(openai) == {BASE, TWO}
    assert say(openai, TWO) == two
