"""Two models of one service: weights from an image and from a bucket, a gate for each, adapters of one.

They are in one service and one file, since a model takes minutes to start. The bucket is a fake S3 on this
machine. Everything else is real: the kubelet mounts the image, Ray copies the bucket.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from openai import NotFoundError, OpenAI

from cluster.images import catalog, tiny_model
from cluster.node import network
from quickstart import chat
from story.load import canary
from story.objects.fake_s3 import ACCESS_KEY, REGION, SECRET_KEY, fake_s3
from story.objects.kubernetes import NAMESPACE, Kubernetes, eventually

NAME = "models"
FROM_IMAGE, FROM_BUCKET = "from-image", "from-bucket"
BUCKET = "weights"
ONE, TWO, LARGE = "one", "team/two", "large"
"""Adapters of the model from the image."""
SECRET: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "bucket-reader"},
    "stringData": {"id": ACCESS_KEY, "key": SECRET_KEY},
}


def cpu_model(name: str, source: str) -> dict[str, Any]:
    """Return a model on the CPU, small enough that two fit next to the tiny sample."""
    return {
        "name": name,
        "source": source,
        "accelerator": {"kind": "cpu"},
        "engine": {"args": {"max_model_len": 1024, "max_num_seqs": 8}},
        "resources": {"cpu": "200m", "memory": "4Gi"},
        "serve": {"gracefulShutdownTimeout": "5s"},
    }


def adapter(name: str, folder: str) -> dict[str, str]:
    """Return an adapter from the image with the tiny model."""
    return {"name": name, "source": f"image://{catalog.references()['tiny-model']}#adapters/{folder}"}


def credential(variable: str, key: str) -> dict[str, Any]:
    """Return an environment variable from the Secret."""
    reference = {"name": SECRET["metadata"]["name"], "key": key}
    return {"name": variable, "valueFrom": {"secretKeyRef": reference}}


def service(endpoint: str) -> dict[str, Any]:
    """Return the LLMService with one adapter, reading buckets at an endpoint."""
    lora = {"maxRank": 8, "maxLoaded": 4, "adapters": [adapter(ONE, "one")]}
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": NAME},
        "spec": {
            "models": [
                cpu_model(FROM_IMAGE, f"image://{catalog.references()['tiny-model']}") | {"lora": lora},
                cpu_model(FROM_BUCKET, f"s3://{BUCKET}/models/tiny-2"),
            ],
            "runtime": {
                "head": {"resources": {"cpu": "200m", "memory": "3Gi"}},
                "env": [
                    {"name": "AWS_ENDPOINT_URL", "value": endpoint},
                    {"name": "AWS_REGION", "value": REGION},
                    credential("AWS_ACCESS_KEY_ID", "id"),
                    credential("AWS_SECRET_ACCESS_KEY", "key"),
                ],
            },
            "hold": {"timeout": "10m"},
        },
    }


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a fake S3 that has the weights of tiny-2."""
    folder = tmp_path_factory.mktemp("s3")
    tiny_model.write(folder / BUCKET / "models" / "tiny-2", catalog.MODELS["tiny-2"])
    with fake_s3(network.NODE_ADDRESS, folder) as url:
        yield url


@pytest.fixture(scope="module")
def manifest(installed: Kubernetes, endpoint: str) -> Iterator[dict[str, Any]]:
    """Apply the service, wait until it is ready, and yield its manifest."""
    written = service(endpoint)
    installed.apply(SECRET)
    installed.apply(written)
    try:
        installed.wait_ready(NAME)
        yield written
    finally:
        installed.delete("llm", NAME)
        installed.delete("secret", SECRET["metadata"]["name"])


@pytest.fixture(scope="module")
def both(kubernetes: Kubernetes, manifest: dict[str, Any]) -> Iterator[OpenAI]:
    """Yield a client of the service with both models."""
    with chat.connected(kubernetes.target, NAMESPACE, NAME, timeout=600) as client:
        yield client


def write(client: OpenAI, model: str) -> str:
    """Return a model's answer to a fixed question: deterministic, and unique to its weights."""
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Good morning"}],
        max_tokens=16,
        temperature=0,
        extra_body={"ignore_eos": True},
    )
    assert answer.model == model
    text = answer.choices[0].message.content
    assert text
    return text


def complete(client: OpenAI, model: str, answers: str = "") -> str:
    """Return a model's completion of a fixed text: deterministic, and unique to its weights.

    With a route's name in `model`, `answers` names the model that answers.
    """
    answer = client.completions.create(
        model=model, prompt="Good morning", max_tokens=12, temperature=0, extra_body={"ignore_eos": True}
    )
    assert answer.model == (answers or model)
    return answer.choices[0].text


def status(kubernetes: Kubernetes) -> dict[str, Any]:
    """Return the status of the service."""
    found: dict[str, Any] = (kubernetes.get("llm", NAME) or {}).get("status", {})
    return found


def phases(kubernetes: Kubernetes) -> dict[str, str]:
    """Return the sleep phase of each model."""
    gates = status(kubernetes).get("gate", {}).get("models", [])
    return {name: gate["phase"] for name, gate in by("name", gates).items()}


def by(key: str, items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return a Kubernetes list as a mapping, by the key that identifies its items."""
    return {item[key]: item for item in items}


def message(observed: dict[str, Any], model: str) -> str:
    """Return the status message of a model, or "" without one."""
    report: str = by("name", observed.get("models", [])).get(model, {}).get("message", "")
    return report


def have(
    kubernetes: Kubernetes, manifest: dict[str, Any], *adapters: dict[str, str], **more: dict[str, Any]
) -> None:
    """Set the adapters of the model from the image, and more fields of its spec."""
    models = copy.deepcopy(manifest["spec"]["models"])
    models[0]["lora"]["adapters"] = list(adapters)
    models[0] |= more
    kubernetes.patch(NAME, {"spec": {"models": models}})


def states(kubernetes: Kubernetes) -> dict[str, str]:
    """Return the state of each adapter."""
    return {each["name"]: each["state"] for each in status(kubernetes)["models"][0].get("lora", [])}


def pods(kubernetes: Kubernetes) -> dict[str, list[int]]:
    """Return the restarts of each container of the service's Ray pods, by the pod's uid."""
    found = kubernetes.get("pods", "-l", f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={NAME}")
    assert found is not None
    return {
        pod["metadata"]["uid"]: [each["restartCount"] for each in pod["status"]["containerStatuses"]]
        for pod in found["items"]
    }


def names(client: OpenAI) -> set[str]:
    """Return the listed model names."""
    return {model.id for model in client.models.list()}


def test_both_models_are_ready_and_listed(kubernetes: Kubernetes, both: OpenAI) -> None:
    eventually(
        lambda: {model["name"]: model["state"] for model in status(kubernetes)["models"]},
        lambda states: states == {FROM_IMAGE: "Ready", FROM_BUCKET: "Ready"},
    )
    eventually(lambda: names(both), lambda observed: observed == {FROM_IMAGE, FROM_BUCKET, ONE})


def test_each_model_answers_with_its_own_weights(both: OpenAI, client: OpenAI) -> None:
    from_image, from_bucket = write(both, FROM_IMAGE), write(both, FROM_BUCKET)
    assert from_image != from_bucket
    assert (write(both, FROM_IMAGE), write(both, FROM_BUCKET)) == (from_image, from_bucket)
    # The tiny sample uses the same weights as the image, from a folder of the Ray image.
    assert write(client, "tiny") == from_image


def test_each_model_has_a_pod_of_its_own(kubernetes: Kubernetes, manifest: dict[str, Any]) -> None:
    found = kubernetes.get(
        "pods",
        "-l",
        f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={NAME},ray.io/node-type=worker",
    )
    assert found is not None
    volumes = {
        pod["metadata"]["labels"]["daybreak.dev/model"]: [v for v in pod["spec"]["volumes"] if "image" in v]
        for pod in found["items"]
    }
    assert len(found["items"]) == 2
    assert set(volumes) == {FROM_IMAGE, FROM_BUCKET}
    # One volume for the weights and one for the adapters.
    assert len(volumes[FROM_IMAGE]) == 2
    assert volumes[FROM_BUCKET] == []


def test_canary_without_errors_is_promoted(
    kubernetes: Kubernetes, manifest: dict[str, Any], both: OpenAI
) -> None:
    write(both, FROM_BUCKET)
    kubernetes.apply(canary.route(NAME, FROM_IMAGE, FROM_BUCKET, run="1"))
    eventually(
        lambda: canary.phase(canary.status(kubernetes), "1"), lambda observed: observed == "Progressing"
    )
    observed, statuses = canary.ask_until(
        kubernetes, lambda observed: canary.phase(observed, "1") == "Promoted"
    )
    assert set(statuses) == {200}
    assert [each["weight"] for each in observed["backends"]] == [40, 60]


def test_idle_model_sleeps_while_other_model_stays_awake(
    kubernetes: Kubernetes, manifest: dict[str, Any], both: OpenAI
) -> None:
    from_image = write(both, FROM_IMAGE)
    models = copy.deepcopy(manifest["spec"]["models"])
    models[1]["replicas"] = {"min": 0, "downscaleToZeroDelay": "5s"}
    # A hold timeout too short for a wake, for the test after this one.
    kubernetes.patch(NAME, {"spec": {"models": models, "hold": {"timeout": "1s"}}})
    workers = (
        "-l",
        f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={NAME},ray.io/node-type=worker",
    )
    eventually(lambda: phases(kubernetes), lambda observed: observed.get(FROM_BUCKET) == "Asleep", minutes=3)
    eventually(lambda: kubernetes.names("pods", *workers), lambda pods: len(pods) == 1, minutes=3)
    assert phases(kubernetes) == {FROM_IMAGE: "Awake", FROM_BUCKET: "Asleep"}
    assert write(both, FROM_IMAGE) == from_image, "the other model continues to answer"
    assert phases(kubernetes)[FROM_BUCKET] == "Asleep", "and that wakes nothing"


def test_canary_that_answers_errors_is_rolled_back(
    kubernetes: Kubernetes, manifest: dict[str, Any], both: OpenAI
) -> None:
    """The canary sleeps, and its hold is too short for a wake: requests to it receive 503."""
    kubernetes.apply(canary.route(NAME, FROM_IMAGE, FROM_BUCKET, run="2"))
    observed, statuses = canary.ask_until(
        kubernetes, lambda observed: canary.phase(observed, "2") == "RolledBack"
    )
    assert set(statuses) == {200, 503}
    assert [each["weight"] for each in observed["backends"]] == [100, 0]
    assert "errors: " in by("type", observed["conditions"])["Canary"]["message"]
    # From then on, no client receives an error.
    with chat.connected(kubernetes.target, NAMESPACE, "llm", timeout=120) as client:
        for _ in range(10):
            assert complete(client, canary.ROUTE, answers=FROM_IMAGE)
    kubernetes.delete("llmroute", canary.ROUTE)
    kubernetes.patch(NAME, {"spec": {"hold": manifest["spec"]["hold"]}})


def test_canary_model_answers_after_rollback(
    kubernetes: Kubernetes, manifest: dict[str, Any], both: OpenAI
) -> None:
    """A request wakes the model even if it was not held long enough for an answer."""
    # A gateway that has not read the longer hold yet asks for a retry.
    patient = both.with_options(max_retries=5)
    assert write(patient, FROM_BUCKET) != write(both, FROM_IMAGE)
    kubernetes.patch(NAME, {"spec": {"models": manifest["spec"]["models"]}})


def test_base_model_and_adapter_are_listed_and_answer_differently(
    kubernetes: Kubernetes, both: OpenAI
) -> None:
    eventually(lambda: states(kubernetes), lambda observed: observed == {ONE: "Ready"})
    assert names(both) == {FROM_IMAGE, FROM_BUCKET, ONE}
    assert complete(both, FROM_IMAGE) != complete(both, ONE)


def test_adapters_are_added_and_removed_without_pod_restart(
    kubernetes: Kubernetes, manifest: dict[str, Any], both: OpenAI
) -> None:
    before, base, one = pods(kubernetes), complete(both, FROM_IMAGE), complete(both, ONE)
    have(kubernetes, manifest, adapter(ONE, "one"), adapter(TWO, "two"))
    eventually(
        lambda: states(kubernetes), lambda observed: observed == {ONE: "Ready", TWO: "Ready"}, minutes=4
    )
    two = eventually(lambda: names(both), lambda observed: TWO in observed) and complete(both, TWO)
    assert len({base, one, two}) == 3
    assert (complete(both, FROM_IMAGE), complete(both, ONE)) == (base, one)
    have(kubernetes, manifest, adapter(TWO, "two"))
    eventually(lambda: names(both), lambda observed: observed == {FROM_IMAGE, FROM_BUCKET, TWO}, minutes=4)
    with pytest.raises(NotFoundError):
        complete(both, ONE)
    assert complete(both, TWO) == two
    assert pods(kubernetes) == before


def test_adapter_with_too_high_rank_is_rejected_and_base_stays_ready(
    kubernetes: Kubernetes, manifest: dict[str, Any], both: OpenAI
) -> None:
    have(kubernetes, manifest, adapter(TWO, "two"), adapter(LARGE, "rank-64"))
    eventually(
        lambda: states(kubernetes), lambda observed: observed == {TWO: "Ready", LARGE: "Rejected"}, minutes=4
    )
    status = (kubernetes.get("llm", NAME) or {})["status"]
    ready = next(each for each in status["conditions"] if each["type"] == "Ready")
    assert ready["status"] == "True"
    assert "its rank is 64, and the model takes 8 at most" in ready["message"]
    assert names(both) == {FROM_IMAGE, FROM_BUCKET, TWO}
    with pytest.raises(NotFoundError):
        complete(both, LARGE)


def test_request_to_adapter_wakes_sleeping_base_model(
    kubernetes: Kubernetes, manifest: dict[str, Any], both: OpenAI
) -> None:
    two = complete(both, TWO)
    have(kubernetes, manifest, adapter(TWO, "two"), replicas={"min": 0, "downscaleToZeroDelay": "5s"})
    eventually(lambda: states(kubernetes), lambda observed: observed.get(TWO) == "Asleep", minutes=5)
    assert phases(kubernetes) == {FROM_IMAGE: "Asleep", FROM_BUCKET: "Awake"}
    assert names(both) == {FROM_IMAGE, FROM_BUCKET, TWO}
    assert complete(both, TWO) == two
    kubernetes.patch(NAME, {"spec": {"models": manifest["spec"]["models"]}})


def test_missing_weights_in_bucket_are_reported_for_affected_model(
    kubernetes: Kubernetes, manifest: dict[str, Any]
) -> None:
    """The pod still contains the weights of the previous source, which must not be loaded instead."""
    models = copy.deepcopy(manifest["spec"]["models"])
    models[1]["source"] = f"s3://{BUCKET}/models/no-such-model"
    kubernetes.patch(NAME, {"spec": {"models": models}})
    observed = eventually(
        lambda: status(kubernetes),
        lambda observed: "no-such-model" in message(observed, FROM_BUCKET),
        minutes=4,
    )
    assert "no-such-model" not in message(observed, FROM_IMAGE)
    ready = by("type", observed["conditions"])["Ready"]
    assert ready["reason"] == "ModelFailed"
    assert FROM_BUCKET in ready["message"]
    assert FROM_IMAGE not in ready["message"]


def test_service_deletion_removes_its_objects(kubernetes: Kubernetes, manifest: dict[str, Any]) -> None:
    """The pods take a minute to end; test_05 checks that they are gone too."""
    kubernetes.delete("llm", NAME)
    kinds = "rayservices,rayclusters,services,serviceaccounts,networkpolicies,poddisruptionbudgets"
    eventually(
        lambda: kubernetes.names(
            kinds, "-l", f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={NAME}"
        ),
        lambda left: not left,
    )
