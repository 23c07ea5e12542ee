"""Bad inputs lead to a clear condition or a rejection, and the tiny sample keeps answering."""

import copy
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from openai import InternalServerError, OpenAI, OpenAIError

from cluster.errors import ClusterError
from daybreak.api.llmservice.definition import NAME_LIMIT
from story.objects.kubernetes import Kubernetes, eventually
from story.test_02_changes import ask

NO_WEIGHTS = "no-weights"
"""Separate name: a gateway may keep the address of a just deleted service for a moment longer."""


def variant(tiny_manifest: dict[str, Any], name: str, memory: str = "2Gi") -> dict[str, Any]:
    """Return the tiny sample under another name, as a base for bad inputs.

    Its pods request few resources, because other pods run at the same time.
    """
    manifest = copy.deepcopy(tiny_manifest)
    manifest["metadata"] = {"name": name}
    size = {"cpu": "50m", "memory": memory}
    manifest["spec"]["models"][0]["resources"] = size
    manifest["spec"]["runtime"]["head"]["resources"] = size
    return manifest


def spoil_argument(manifest: dict[str, Any]) -> None:
    manifest["spec"]["models"][0]["engine"]["args"]["max_model_lenn"] = 64


def spoil_gpus(manifest: dict[str, Any]) -> None:
    model = manifest["spec"]["models"][0]
    model["accelerator"] = {"kind": "gpu"}
    model["parallelism"] = {"tensor": 8}
    model.pop("resources", None)


def spoil_image(manifest: dict[str, Any]) -> None:
    manifest["spec"].setdefault("runtime", {})["image"] = "daybreak.invalid/no-such-image:1"


def spoil_secret(manifest: dict[str, Any]) -> None:
    manifest["spec"].setdefault("runtime", {})["env"] = [
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "no-such-secret", "key": "token"}}}
    ]


def spoil_weights(manifest: dict[str, Any]) -> None:
    manifest["spec"]["models"][0]["source"] = "file:///models/no-such-model"


def refused(kubernetes: Kubernetes, model: str) -> tuple[InternalServerError, datetime]:
    """Send a request to the service without weights until it is rejected; return the error and its time."""
    address = (
        eventually(lambda: kubernetes.get("service", NO_WEIGHTS), lambda observed: observed is not None) or {}
    )
    base = f"http://{address['spec']['clusterIP']}/v1"
    with OpenAI(base_url=base, api_key="none", max_retries=0, timeout=900) as waiting:
        # Until the gateways know a new service, no server is behind its address.
        eventually(lambda: listed(waiting), bool)
        with pytest.raises(InternalServerError) as refusal:
            ask(waiting, model)
    return refusal.value, datetime.now(UTC)


def listed(client: OpenAI) -> list[str]:
    """Return the models that a service lists, or none while it cannot be reached."""
    try:
        return [model.id for model in client.models.list()]
    except OpenAIError:
        return []


@pytest.fixture(scope="module", autouse=True)
def waits(
    kubernetes: Kubernetes, tiny: str, tiny_manifest: dict[str, Any]
) -> Iterator[Future[tuple[InternalServerError, datetime]]]:
    """Yield a waiting client of a model without weights, which starts and fails during the other tests."""
    manifest = variant(tiny_manifest, NO_WEIGHTS, memory="4Gi")
    spoil_weights(manifest)
    kubernetes.apply(manifest)
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(refused, kubernetes, manifest["spec"]["models"][0]["name"])
        finally:
            # Deletion of the service ends the requests that wait for it.
            kubernetes.delete("llm", NO_WEIGHTS)


@pytest.mark.parametrize(
    ("spoil", "condition", "reason", "words"),
    [
        pytest.param(
            spoil_argument, "Stalled", "InvalidSpec", ["max_model_lenn", "max_model_len"], id="argument"
        ),
        pytest.param(spoil_gpus, "Schedulable", "NoNodeFits", ["8 nvidia.com/gpu"], id="gpus"),
        pytest.param(
            spoil_image, "Stalled", "ImagePullFailed", ["daybreak.invalid/no-such-image:1"], id="image"
        ),
        pytest.param(spoil_secret, "Stalled", "ContainerConfigFailed", ["no-such-secret"], id="secret"),
    ],
)
def test_condition_states_cause_of_bad_input(
    kubernetes: Kubernetes,
    client: OpenAI,
    tiny_manifest: dict[str, Any],
    spoil: Any,
    condition: str,
    reason: str,
    words: list[str],
) -> None:
    manifest = variant(tiny_manifest, "spoilt")
    spoil(manifest)
    kubernetes.apply(manifest)
    try:
        observed = eventually(
            lambda: kubernetes.condition("spoilt", condition),
            lambda observed: observed.get("reason") == reason,
            minutes=15,
        )
        for word in words:
            assert word in observed["message"]
        assert kubernetes.condition("spoilt", "Ready")["status"] != "True"
        assert ask(client, tiny_manifest["spec"]["models"][0]["name"]) > 0
    finally:
        kubernetes.delete("llm", "spoilt")


def test_held_request_gets_503_with_cause_when_model_cannot_start(
    kubernetes: Kubernetes, waits: Future[tuple[InternalServerError, datetime]]
) -> None:
    """The answer has the engine's message and comes once the cause is known, not after the hold timeout."""
    stalled = eventually(
        lambda: kubernetes.condition(NO_WEIGHTS, "Stalled"),
        lambda observed: observed.get("reason") == "ModelFailed",
        minutes=15,
    )
    refusal, received = waits.result(timeout=60)
    assert refusal.status_code == 503
    assert "no-such-model" in str(refusal)
    assert (received - datetime.fromisoformat(stalled["lastTransitionTime"])).total_seconds() < 10


def test_api_server_rejects_invalid_manifest(
    kubernetes: Kubernetes, tiny: str, tiny_manifest: dict[str, Any]
) -> None:
    tensor = variant(tiny_manifest, "tensor-zero")
    # On the CPU another rule also fails, and kubectl's error is reduced to its last line.
    tensor["spec"]["models"][0] |= {"accelerator": {"kind": "gpu"}, "parallelism": {"tensor": 0}}
    long = variant(tiny_manifest, "n" * (NAME_LIMIT + 1))
    twins = variant(tiny_manifest, "twins")
    twins["spec"]["models"].append(copy.deepcopy(twins["spec"]["models"][0]))
    scheme = variant(tiny_manifest, "scheme")
    scheme["spec"]["models"][0]["source"] = "ftp://somewhere/model"
    unknown = variant(tiny_manifest, "unknown")
    unknown["spec"]["models"][0]["replica"] = 2
    before = kubernetes.names("llm")
    for manifest, words in (
        (tensor, r"parallelism\.tensor.* greater than or equal to 1"),
        (long, rf"metadata\.name may have at most {NAME_LIMIT} characters"),
        (twins, r"duplicate entries for key \[name="),
        (scheme, r"models\[0\]\.source: .*use one of hf://"),
        (unknown, r"\.replica: field not declared in schema"),
    ):
        with pytest.raises(ClusterError, match=words):
            kubernetes.apply(manifest)
    assert kubernetes.names("llm") == before
