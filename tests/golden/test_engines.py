"""How each engine that is known is started, as text.

Hardly any of their images runs in tests: a review reads their start commands.
"""

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.profiles import profiles
from daybreak.api.modelserver.validation import problems
from daybreak.kinds.modelserver.objects.deployment import deployment
from tests.golden.test_samples import PLATFORM, Manifests, as_text

SPEC: dict[str, dict[str, Any]] = {
    "vllm": {"engineArgs": {"max_model_len": 4096}},
    "sglang": {"engineArgs": {"mem_fraction_static": 0.8}},
    "llama.cpp": {"engineArgs": {"ctx_size": 4096, "hf_file": "q4.gguf"}},
    "tgi": {"engineArgs": {"max_concurrent_requests": 256}},
    "tensorrt-llm": {"engineArgs": {"max_batch_size": 64}},
    "triton": {"engineArgs": {"log_verbose": 1, "allow_metrics": "false"}},
    "friendli": {
        "engineArgs": {"max_batch_size": 64},
        "env": [
            {
                "name": "FRIENDLI_CONTAINER_SECRET",
                "valueFrom": {"secretKeyRef": {"name": "friendli", "key": "secret"}},
            }
        ],
    },
    "mlflow": {"engineArgs": {"workers": 2}},
    "custom": {"args": ["serve", "{weights}"]},
}
"""Fields of each engine's spec in addition to its model."""
REGISTERED = {"ollama": "ollama://llama3", "mlflow": "mlflow://churn@best"}
"""Source in the registry of each engine that has one."""
KEPT = ("image", "command", "args", "env", "ports", "readinessProbe")


def started(engine: str, model: dict[str, Any], **more: Any) -> str:
    """Return the engine's container, with the fields that depend on the engine.

    These are its probes, and the workers' container if a replica has several nodes.
    """
    gpus = {"accelerator": {"kind": "gpu"}, "parallelism": {"tensor": 2}}
    image = {} if engine == "vllm" else {"image": f"registry.example.com/{engine}:1"}
    spec = {"engine": engine, "model": model, **image, **gpus, **SPEC.get(engine, {}), **more}
    metadata = {"name": "chat", "namespace": "default", "uid": "0-0"}
    one = ModelServer.from_manifest({"metadata": metadata, "spec": spec})
    assert problems(one) == ()
    made = deployment(one, PLATFORM, 1)["spec"]
    group = made.get("leaderWorkerTemplate", {})
    templates = [made["template"]] if not group else [group["leaderTemplate"], group["workerTemplate"]]
    report = []
    for template in templates:
        [container] = template["spec"]["containers"]
        container["env"] = [each for each in container["env"] if each["name"] in one.profile.env]
        report.append({name: container[name] for name in KEPT if container.get(name)})
    report[0] |= {"protocol": str(one.protocol), "firstAnswer": one.answer_path or "a completion"}
    return as_text(report)


@pytest.mark.parametrize("engine", sorted(name for name, each in profiles().items() if each.distributed))
def test_start_command_on_several_nodes_matches_snapshot(engine: str, snapshot: SnapshotAssertion) -> None:
    model = {"name": "chat", "source": "pvc://weights/deep"}
    more = {"parallelism": {"tensor": 8, "pipeline": 2}, "nodes": 2}
    assert started(engine, model, **more) == snapshot(extension_class=Manifests)


@pytest.mark.parametrize("engine", sorted(profiles()))
def test_start_command_for_path_matches_snapshot(engine: str, snapshot: SnapshotAssertion) -> None:
    model = {"name": "chat", "source": "pvc://weights/deep"}
    assert started(engine, model) == snapshot(extension_class=Manifests)


@pytest.mark.parametrize("engine", REGISTERED)
def test_start_command_for_registry_model_matches_snapshot(engine: str, snapshot: SnapshotAssertion) -> None:
    model = {"name": "chat", "source": REGISTERED[engine]}
    assert started(engine, model) == snapshot(extension_class=Manifests)


@pytest.mark.parametrize("engine", sorted(name for name, profile in profiles().items() if profile.hub))
def test_start_command_for_hub_model_matches_snapshot(engine: str, snapshot: SnapshotAssertion) -> None:
    profile = profiles()[engine]
    model: dict[str, Any] = {"name": "chat", "source": "hf://owner/name"}
    if profile.knows_revisions:
        model |= {"revision": "a" * 40, "trustRemoteCode": profile.runs_remote_code}
    assert started(engine, model) == snapshot(extension_class=Manifests)
