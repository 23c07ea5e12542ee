"""Manifests of users of other tools: their settings reach the pods and the engine unchanged."""

from typing import Any

import yaml

from daybreak.api.llmservice.validation import problems
from daybreak.kinds.llmservice.objects.ray_service import ray_service
from daybreak.ray.serve.serve_config import serve_config
from tests.unit.ray.services import PLATFORM, model, service

SNAPSHOT = "models--org--small/snapshots/0123456789abcdef0123456789abcdef01234567"


def engine_kwargs(svc: Any) -> dict[str, Any]:
    """Return the first model's engine arguments in the Serve configuration."""
    return dict(llm_config(svc)["engine_kwargs"])


def llm_config(svc: Any) -> dict[str, Any]:
    """Return the configuration that Ray Serve LLM receives for the first model."""
    [application] = yaml.safe_load(serve_config(svc.workload))["applications"]
    found: dict[str, Any] = application["args"]["llm_configs"][0]
    return found


def worker(svc: Any) -> dict[str, Any]:
    """Return the spec of the first model's worker pods."""
    groups = ray_service(svc, PLATFORM)["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    found: dict[str, Any] = groups[0]["template"]
    return found


def test_tool_calls_reasoning_and_quantization_reach_the_engine() -> None:
    args: dict[str, Any] = {
        "enable_auto_tool_choice": True,
        "tool_call_parser": "hermes",
        "reasoning_parser": "qwen3",
        "chat_template": "/prompts/tools.jinja",
        "default_chat_template_kwargs": {"enable_thinking": False},
        "kv_cache_dtype": "fp8",
        "enable_expert_parallel": True,
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4},
        "limit_mm_per_prompt": {"image": 0},
        "max_model_len": "65536",
    }
    svc = service(
        model(
            source="hf://org/large-fp8",
            token={"secretKeyRef": {"name": "hub", "key": "token"}},
            parallelism={"tensor": 8},
            accelerator={
                "type": "H100",
                "nodeSelector": {"example.com/spot": "true"},
                "tolerations": [{"key": "example.com/spot", "operator": "Exists", "effect": "NoSchedule"}],
            },
            resources={"cpu": 32, "memory": "400Gi", "sharedMemory": "64Gi"},
            replicas={"min": 1, "max": 4, "targetOngoingRequests": 64},
            engine={"args": args},
            volumes=[{"name": "prompts", "configMap": {"name": "prompts"}}],
            volumeMounts=[{"name": "prompts", "mountPath": "/prompts", "readOnly": True}],
            podTemplate={
                "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
                "spec": {"priorityClassName": "low"},
            },
        ),
        sleep={"afterIdle": "30m"},
        runtime={"env": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}]},
    )
    assert problems(svc) == ()
    found = engine_kwargs(svc)
    assert {name: found.get(name) for name in args} == args
    assert found["tensor_parallel_size"] == 8
    pod = worker(svc)
    assert pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
    assert pod["spec"]["priorityClassName"] == "low"
    assert pod["spec"]["nodeSelector"] == {"example.com/spot": "true"}
    assert {"name": "prompts", "mountPath": "/prompts", "readOnly": True} in pod["spec"]["containers"][0][
        "volumeMounts"
    ]


def test_snapshot_of_a_hub_cache_is_read_by_path() -> None:
    """The whole PVC is mounted, so that the snapshot's links to its blobs work."""
    svc = service(model(source=f"pvc://offline/cache/{SNAPSHOT}"))
    assert problems(svc) == ()
    path = llm_config(svc)["model_loading_config"]["model_source"]
    assert path.endswith(f"/cache/{SNAPSHOT}")
    container = worker(svc)["spec"]["containers"][0]
    [volume] = [
        each
        for each in worker(svc)["spec"]["volumes"]
        if each.get("persistentVolumeClaim", {}).get("claimName") == "offline"
    ]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == volume["name"]]
    assert "subPath" not in mount
    assert mount["readOnly"] is True
    assert path == f"{mount['mountPath']}/cache/{SNAPSHOT}"


def test_hub_cache_on_a_claim_is_read_by_name() -> None:
    """A user's `HF_HOME` overrides Daybreak's cache, which stays the directory that compilers write to."""
    offline = [{"name": "HF_HUB_OFFLINE", "value": "1"}, {"name": "HF_HOME", "value": "/models"}]
    svc = service(
        model(source="hf://org/small"),
        runtime={
            "env": offline,
            "volumes": [{"name": "hub", "persistentVolumeClaim": {"claimName": "hub", "readOnly": True}}],
            "volumeMounts": [{"name": "hub", "mountPath": "/models", "readOnly": True}],
        },
    )
    assert problems(svc) == ()
    container = worker(svc)["spec"]["containers"][0]
    values = {each["name"]: each.get("value") for each in container["env"]}
    assert (values["HF_HOME"], values["HF_HUB_OFFLINE"]) == ("/models", "1")
    written = {
        name: value for name, value in values.items() if name.endswith(("_ROOT", "_DIR", "_PATH", "_BASE"))
    }
    assert written
    assert not any(str(value).startswith("/models") for value in written.values())
    assert llm_config(svc)["model_loading_config"]["model_source"] == "org/small"
