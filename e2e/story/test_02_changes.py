"""Scale, change engine arguments, repair drift: the changes of daily operation."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

from openai import BadRequestError, OpenAI

from daybreak.api.common.names import RAY_NODE_TYPE_LABEL, owner_selector
from story.objects.kubernetes import NAMESPACE, Kubernetes, eventually


def ray_cluster(kubernetes: Kubernetes, name: str) -> str:
    """Return the name of the active RayCluster, which stays the same if a change is made in place."""
    ray_service = kubernetes.get("rayservice", name)
    assert ray_service is not None
    cluster: str = ray_service["status"]["activeServiceStatus"]["rayClusterName"]
    return cluster


def replicas(kubernetes: Kubernetes, name: str) -> int:
    """Return the number of ready replicas in the status."""
    service = kubernetes.get("llm", name)
    assert service is not None
    ready: int = service["status"]["replicas"]
    return ready


def ask(client: OpenAI, model: str, tokens: int = 4) -> int:
    """Return the number of tokens of one answer."""
    answer = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Good morning"}], max_tokens=tokens, temperature=0
    )
    assert answer.usage is not None
    return answer.usage.completion_tokens


def workers(kubernetes: Kubernetes, name: str) -> list[dict[str, Any]]:
    """Return the worker pods that are not being deleted."""
    pods = kubernetes.get("pods", "-l", f"{owner_selector(name)},{RAY_NODE_TYPE_LABEL}=worker")
    assert pods is not None
    return [pod for pod in pods["items"] if "deletionTimestamp" not in pod["metadata"]]


@contextmanager
def asked_all_the_time(client: OpenAI, model: str) -> Iterator[list[int]]:
    """Run four clients that send requests continuously, 16 tokens each, and yield the tokens of each answer.

    The first request that fails is raised at the end.
    """
    answers: list[int] = []
    over = Event()

    def one() -> None:
        while not over.is_set():
            answers.append(ask(client, model, tokens=16))

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(one) for _ in range(4)]
        try:
            yield answers
        finally:
            over.set()
    for each in clients:
        each.result()


def test_deleted_front_service_is_recreated(kubernetes: Kubernetes, tiny: str) -> None:
    before = kubernetes.get("service", tiny)
    assert before is not None
    kubernetes.delete("service", tiny)
    after = eventually(lambda: kubernetes.get("service", tiny), lambda observed: observed is not None)
    assert after is not None
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["selector"] == before["spec"]["selector"]


def test_kubectl_scale_adds_and_removes_replica_without_failed_request(
    kubernetes: Kubernetes, tiny: str, client: OpenAI, tiny_manifest: dict[str, Any]
) -> None:
    model = tiny_manifest["spec"]["models"][0]["name"]
    cluster = ray_cluster(kubernetes, tiny)
    kubernetes.target.kubectl("scale", "-n", NAMESPACE, "llm", tiny, "--replicas=2")
    eventually(lambda: replicas(kubernetes, tiny), lambda observed: observed == 2, minutes=10)
    with asked_all_the_time(client, model) as answers:
        eventually(lambda: len(answers), lambda observed: observed >= 4)
        kubernetes.target.kubectl("scale", "-n", NAMESPACE, "llm", tiny, "--replicas=1")
        eventually(lambda: replicas(kubernetes, tiny), lambda observed: observed == 1, minutes=10)
        # The pod that serves no requests is deleted when it has been idle.
        eventually(lambda: len(workers(kubernetes, tiny)), lambda observed: observed == 1, minutes=5)
    assert all(tokens > 0 for tokens in answers)
    assert ray_cluster(kubernetes, tiny) == cluster


def test_changed_engine_arguments_apply_in_same_ray_cluster(
    kubernetes: Kubernetes, tiny: str, client: OpenAI, tiny_manifest: dict[str, Any]
) -> None:
    model = tiny_manifest["spec"]["models"][0]
    cluster = ray_cluster(kubernetes, tiny)
    changed = {**model, "engine": {"args": {**model["engine"]["args"], "max_model_len": 128}}}
    kubernetes.patch(tiny, {"spec": {"models": [changed]}})
    generation = (kubernetes.get("llm", tiny) or {})["metadata"]["generation"]
    eventually(
        lambda: (kubernetes.get("llm", tiny) or {})["status"],
        lambda observed: (
            observed["observedGeneration"] == generation
            and {c["type"]: c["status"] for c in observed["conditions"]}["Ready"] == "True"
        ),
        minutes=10,
    )
    assert too_long(client, model["name"])
    assert ray_cluster(kubernetes, tiny) == cluster


def too_long(client: OpenAI, model: str) -> bool:
    """Return True if a prompt of some 300 tokens is rejected, as it is once max_model_len is 128."""
    try:
        client.completions.create(model=model, prompt="morning " * 300, max_tokens=1)
    except BadRequestError as refusal:
        return "128" in str(refusal)
    return False
