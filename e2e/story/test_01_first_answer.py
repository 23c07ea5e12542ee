"""Install by Helm, apply the tiny sample, and use it with the openai client."""

from typing import Any

from openai import OpenAI

from story.objects.kubernetes import Kubernetes


def test_chat_completion_returns_tokens_of_requested_model(
    client: OpenAI, tiny_manifest: dict[str, Any]
) -> None:
    model = tiny_manifest["spec"]["models"][0]["name"]
    answer = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "Good morning"}], max_tokens=8, temperature=0
    )
    assert answer.model == model
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


def test_stream_returns_tokens_in_several_chunks(client: OpenAI, tiny_manifest: dict[str, Any]) -> None:
    model = tiny_manifest["spec"]["models"][0]["name"]
    chunks = list(
        client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": "Count"}],
            max_tokens=8,
            temperature=0,
            stream=True,
            extra_body={"ignore_eos": True},
        )
    )
    assert len([chunk for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]) > 1
    assert chunks[-1].choices[0].finish_reason == "length"


def test_models_endpoint_lists_models_of_service(client: OpenAI, tiny_manifest: dict[str, Any]) -> None:
    assert [model.id for model in client.models.list()] == [
        m["name"] for m in tiny_manifest["spec"]["models"]
    ]


def test_kubectl_get_shows_state_replicas_and_url(kubernetes: Kubernetes, tiny: str) -> None:
    heading, line = kubernetes.target.kubectl("get", "llm", tiny).splitlines()
    columns = dict(zip(heading.split(), line.split(), strict=True))
    assert columns["NAME"] == tiny
    assert columns["READY"] == "True"
    assert columns["PHASE"] == "Awake"
    assert columns["REPLICAS"] == "1"
    assert columns["URL"] == f"http://{tiny}.default.svc/v1"


def test_status_follows_kstatus(kubernetes: Kubernetes, tiny: str) -> None:
    service = kubernetes.get("llm", tiny)
    assert service is not None
    assert service["status"]["observedGeneration"] == service["metadata"]["generation"]
    conditions = {c["type"]: c["status"] for c in service["status"]["conditions"]}
    assert conditions == {
        "Ready": "True",
        "Active": "True",
        "Schedulable": "True",
        "Reconciling": "False",
        "Stalled": "False",
    }


def test_ray_pods_run_restricted_under_service_account_of_service(kubernetes: Kubernetes, tiny: str) -> None:
    pods = kubernetes.get("pods", "-l", f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={tiny}")
    assert pods is not None
    assert {pod["metadata"]["labels"]["ray.io/node-type"] for pod in pods["items"]} == {"head", "worker"}
    for pod in pods["items"]:
        assert pod["spec"]["serviceAccountName"] == f"{tiny}-sa"
        for container in pod["spec"]["containers"]:
            security = {**pod["spec"].get("securityContext", {}), **container["securityContext"]}
            assert security["runAsNonRoot"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"]["drop"] == ["ALL"]


def test_ray_api_rejects_request_without_token(kubernetes: Kubernetes, tiny: str) -> None:
    """Ray's own API rejects requests without the token; an attacker with a foothold would try it first."""
    head = kubernetes.get(
        "pods",
        "-l",
        f"daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name={tiny},ray.io/node-type=head",
    )
    assert head is not None
    text = kubernetes.target.kubectl(
        "exec", "-n", "default", head["items"][0]["metadata"]["name"], "-c", "ray-head", "--",
        "python", "-c",
        "import urllib.request, urllib.error\n"
        "try: print(urllib.request.urlopen('http://127.0.0.1:8265/api/serve/applications/').status)\n"
        "except urllib.error.HTTPError as error: print(error.code)",
    )  # fmt: skip
    assert text.strip() in {"401", "403"}
