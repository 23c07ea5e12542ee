"""API keys and the namespace's shared address, at the gateways before the real model."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from openai import AuthenticationError, InternalServerError, NotFoundError, OpenAI

from story.objects.kubernetes import NAMESPACE, Kubernetes, eventually
from story.test_06_application import CODE, MANIFEST

KEY, SECRET = "sk-story-4711", "story-keys"


def client(kubernetes: Kubernetes, service: str, key: str) -> OpenAI:
    """Return a client of a Service of the namespace."""
    found = kubernetes.get("service", service)
    assert found is not None
    base = f"http://{found['spec']['clusterIP']}/v1"
    return OpenAI(base_url=base, api_key=key, max_retries=0, timeout=300)


def greet(openai: OpenAI, model: str) -> int:
    """Return the number of tokens of one short answer; its text may be empty: the model is untrained."""
    messages: list[Any] = [{"role": "user", "content": "Good morning"}]
    answer = openai.chat.completions.create(model=model, messages=messages, max_tokens=2)
    assert answer.usage is not None
    return answer.usage.completion_tokens


@pytest.fixture(scope="module", autouse=True)
def application_starts(installed: Kubernetes) -> None:
    """Start the application of the next file during these tests, which leave the machine idle."""
    installed.apply(CODE)
    installed.apply(MANIFEST)


@pytest.fixture(scope="module")
def model(kubernetes: Kubernetes, tiny: str, tiny_manifest: dict[str, Any]) -> str:
    """Return the name of the model, which stays awake during these tests."""
    kubernetes.patch(tiny, {"spec": {"sleep": None}})
    name: str = tiny_manifest["spec"]["models"][0]["name"]
    with client(kubernetes, tiny, "none") as openai:
        assert greet(openai, name)
    return name


@pytest.fixture
def secret(kubernetes: Kubernetes) -> Iterator[str]:
    """Create a Secret with the key, and yield its name."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET},
        "stringData": {"one": KEY},
    }
    kubernetes.target.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(manifest))
    yield SECRET
    kubernetes.delete("secret", SECRET)


def test_shared_address_serves_model_and_returns_404_for_unknown_model(
    kubernetes: Kubernetes, tiny: str, model: str
) -> None:
    with client(kubernetes, "llm", "none") as openai:
        assert model in [each.id for each in openai.models.list()]
        assert greet(openai, model)
        with pytest.raises(NotFoundError, match=model):
            greet(openai, "nobody")


def test_client_with_valid_key_gets_no_error_while_gateways_are_replaced(
    kubernetes: Kubernetes, tiny: str, model: str, secret: str
) -> None:
    """A client with a valid key from the first moment sees no error, though both gateways are replaced."""
    stop, answers, errors = threading.Event(), [], []

    def go_on() -> None:
        # A gateway that has not read the key yet asks for a retry (503, Retry-After).
        with client(kubernetes, tiny, KEY).with_options(max_retries=5) as openai:
            while not stop.is_set():
                try:
                    answers.append(greet(openai, model))
                except Exception as error:  # noqa: BLE001 -- whatever it is, it is the test's finding
                    errors.append(repr(error))

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        kubernetes.patch(
            tiny, {"spec": {"access": {"apiKeys": [{"secretRef": {"name": secret, "key": "one"}}]}}}
        )
        eventually(lambda: refused(kubernetes, tiny, model), lambda observed: observed, minutes=5)
        kubernetes.target.kubectl(
            "rollout", "status", "-n", NAMESPACE, "deployment/daybreak-gateway", "--timeout=300s"
        )
        before = len(answers)
        eventually(lambda: len(answers) + len(errors), lambda observed: observed > before + 5, minutes=5)
    finally:
        stop.set()
        thread.join(300)
    assert not errors, errors[:3]
    service = kubernetes.get("llm", tiny) or {}
    assert service["status"]["access"] == "ApiKeys"

    for name in (tiny, "llm"):
        with client(kubernetes, name, KEY) as openai:
            assert greet(openai, model)
        with client(kubernetes, name, "sk-wrong") as openai, pytest.raises(AuthenticationError):
            greet(openai, model)
    logs = kubernetes.target.kubectl(
        "logs", "-n", NAMESPACE, "deployment/daybreak-gateway", "--all-containers", "--tail=-1"
    )
    assert KEY not in logs

    kubernetes.patch(tiny, {"spec": {"access": None}})
    eventually(lambda: refused(kubernetes, tiny, model), lambda observed: not observed, minutes=5)


def refused(kubernetes: Kubernetes, name: str, model: str) -> bool:
    """Return True if a request without a key is rejected."""
    with client(kubernetes, name, "none") as openai:
        try:
            greet(openai, model)
        except AuthenticationError:
            return True
        except InternalServerError as error:
            # A gateway that has not read the key yet cannot decide.
            if error.code != "api_keys_unavailable":
                raise
        return False
