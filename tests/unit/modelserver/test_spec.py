"""Fields of a ModelServer: valid values, and helpful messages for rejected ones."""

import json
from typing import Any

import jsonschema
import pytest

from daybreak.api.common.source import FORMS, OF_THE_HUB, Scheme
from daybreak.api.modelserver import crd, spec
from daybreak.api.modelserver.definition import NAME_RULES, ModelServer
from daybreak.api.modelserver.profiles import OF_PATHS, EngineProfile, profiles, unknown, with_own
from daybreak.api.modelserver.validation import problems
from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.custom_object import InvalidSpec
from daybreak.kinds.modelserver.observe.observer import read
from daybreak.versions import VLLM
from scripts.docs.server_api import server_api_md
from scripts.kinds import MODEL_SERVER
from scripts.schemas.json_schema import json_schema
from tests.unit.modelserver.servers import CUSTOM, LLAMA, SGLANG, manifest, server

MODEL = {"name": "tiny", "source": "hf://a/b"}
GPUS: dict[str, Any] = {"accelerator": {"kind": "gpu"}, "parallelism": {"tensor": 4}}
BY_RULE: list[tuple[dict[str, Any], str]] = [
    ({"engine": "vlm"}, "spec.engine: vlm is not known here; did you mean vllm?"),
    ({"engine": "nothing"}, "spec.engine: nothing is not known here; there are vllm, sglang, "),
    ({"engine": "No!"}, "spec.engine: "),
    ({"command": ["run"]}, "command belongs to engine custom: the others have their own"),
    ({"args": ["run"]}, "args belongs to engine custom: the others have their own"),
    ({"port": 9000}, "port belongs to engine custom: the others have their own"),
    ({"readinessPath": "/up"}, "readinessPath belongs to engine custom: the others have their own"),
    ({"metricsPath": "/stats"}, "metricsPath belongs to engine custom: the others have their own"),
    ({"metricsPort": 9000}, "metricsPort belongs to engine custom: the others have their own"),
    (CUSTOM | {"metricsPort": 9000}, "metricsPort needs metricsPath"),
    ({"rollout": {"strategy": "InPlace"}}, "spec.rollout.strategy"),
    (
        {"replicas": 3, "autoscaling": {"maxReplicas": 2}},
        "autoscaling.maxReplicas must not be below replicas",
    ),
    (
        {"model": MODEL | {"trustRemoteCode": True, "revision": "main"}},
        "trustRemoteCode runs code from the repository: pin it with revision, a commit of 40 hex digits",
    ),
    ({"model": {"name": "tiny", "source": "file:///m", "revision": "main"}}, OF_THE_HUB[1].message),
    (
        {"model": {"name": "t", "source": "file:///m", "token": {"secretKeyRef": {"name": "s", "key": "k"}}}},
        OF_THE_HUB[0].message,
    ),
    ({"model": {"name": "tiny", "source": "ollama://a/b/c"}}, FORMS[Scheme.OLLAMA].desired),
    ({"model": {"name": "tiny", "source": "mlflow://words/latest"}}, FORMS[Scheme.MLFLOW].desired),
    (
        {"parallelism": {"tensor": 2}},
        "accelerator kind cpu has no parallelism: leave tensor and pipeline at 1",
    ),
    (
        {"accelerator": {"kind": "gpu"}, "parallelism": {"tensor": 2, "pipeline": 2}, "nodes": 3},
        "parallelism.tensor times parallelism.pipeline must be a multiple of nodes",
    ),
    ({"nodes": 2}, "must be a multiple of nodes"),
    (
        {"accelerator": {"kind": "gpu"}, "parallelism": {"tensor": 64, "pipeline": 4}, "nodes": 2},
        "with nodes above 1 a pod has at most 64 accelerators: use more nodes",
    ),
    ({"nodes": 0}, "spec.nodes"),
    (
        {"accelerator": {"type": "H100"}},
        "accelerator.type is Ray's name of an accelerator: use accelerator.nodeSelector",
    ),
    (
        {"sleep": {"depth": "Cluster"}},
        "a ModelServer has no Ray cluster: leave sleep.depth and sleep.clusterAfterIdle out",
    ),
    ({"replicas": 0}, "spec.replicas"),
    ({"colour": "red"}, "there is no such field"),
]
BY_PROBLEM: list[tuple[dict[str, Any], str]] = [
    ({"engine": "custom"}, "spec.image: engine custom needs one"),
    ({"engine": "sglang"}, "spec.image: engine sglang needs one"),
    (
        CUSTOM | {"args": ["--revision={revision}"]},
        "spec.model.revision: engine custom needs one, since {revision} is among its arguments",
    ),
    ({"engineArgs": {"max_model_length": 1}}, "spec.engineArgs.max_model_length: "),
    *(
        ({"image": image, "engineArgs": {"max_model_length": 1}}, "spec.engineArgs.max_model_length: ")
        for image in (
            f"vllm/vllm-openai:v{VLLM}",
            f"vllm/vllm-openai:v{VLLM}-cu130",
            f"registry.example.com:5000/mirror/vllm-openai:{VLLM}@sha256:{'0' * 64}",
        )
    ),
    ({"engineArgs": {"tensor_parallel_size": 2}}, "parallelism.tensor"),
    ({"engineArgs": {"max_num_seqs": "many"}}, "spec.engineArgs.max_num_seqs"),
    (
        CUSTOM | {"engineArgs": {"max_model_len": 1}},
        "spec.engineArgs: engine custom takes none; write spec.args",
    ),
    (
        CUSTOM | {"model": {"name": "tiny", "source": "file:///m", "trustRemoteCode": True}},
        "spec.model.trustRemoteCode: engine custom has no such option",
    ),
    (
        LLAMA | {"model": {"name": "tiny", "source": "hf://o/m", "revision": "main"}},
        "spec.model.revision: engine llama.cpp knows no revisions",
    ),
    (
        {"engine": "triton", "image": "triton:1", "model": MODEL},
        "spec.model.source: engine triton takes no hf:// model; use pvc://, image:// or file://",
    ),
    (
        LLAMA | {"model": {"name": "tiny", "source": "ollama://llama3"}},
        "spec.model.source: engine llama.cpp takes no ollama:// model; use engine ollama",
    ),
    (
        {"engine": "ollama", "image": "ollama:1", "model": {"name": "tiny", "source": "mlflow://words/1"}},
        "spec.model.source: engine ollama takes no mlflow:// model; use engine mlflow",
    ),
    (
        {"engine": "ollama", "image": "ollama:1", "engineArgs": {"a": 1}},
        "spec.engineArgs: engine ollama takes none; write spec.env",
    ),
    (
        {"engine": "triton", "image": "triton:1", "engineArgs": {"model_repository": "/other"}},
        "spec.engineArgs.model_repository: the spec's own fields say it",
    ),
    (
        {"engine": "tensorrt-llm", "image": "trt:1", "engineArgs": {"tp_size": 2}},
        "spec.engineArgs.tp_size: the spec's own fields say it",
    ),
    (LLAMA | {"engineArgs": {"model": "/m"}}, "spec.engineArgs.model: the spec's own fields say it"),
    (LLAMA | {"engineArgs": {"hf_repo": "o/m"}}, "spec.engineArgs.hf_repo: the spec's own fields say it"),
    (
        LLAMA | {"engineArgs": {"docker_repo": "ai/m"}},
        "spec.engineArgs.docker_repo: the spec's own fields say it",
    ),
    (SGLANG | {"engineArgs": {"tp": 2}}, "spec.engineArgs.tp: the spec's own fields say it"),
    (SGLANG | {"engineArgs": {"tensor_parallel_size": 2}}, "tensor_parallel_size: the spec's own fields"),
    (SGLANG | {"engineArgs": {"a; b": 1}}, "spec.engineArgs: 'a; b' is no name of an argument"),
    (SGLANG | {"engineArgs": {"lora": {"a": 1}}}, "spec.engineArgs.lora: write text, a number, true"),
    (CUSTOM | {"args": ["--model={weight}"]}, "spec.args: {weight} has no value; did you mean {weights}?"),
    (CUSTOM | {"command": ["{colour}"]}, "spec.command: {colour} has no value; there are {weights}"),
    (
        CUSTOM | {"readinessPath": "/{models}/up"},
        "spec.readinessPath: {models} has no value; did you mean {model}?",
    ),
    ({"model": {"name": "tiny", "source": "s3://bucket/m"}}, "nothing copies a bucket into the pod"),
    ({"resources": {"memory": "500m"}}, "spec.resources.memory: 500m is less than 1Mi"),
    (
        {"accelerator": {"claim": {"templateName": "gpus", "devices": 2}}},
        "spec.accelerator.claim.devices: a pod computes on 1, not on 2",
    ),
    (
        {
            "accelerator": {"claim": {"templateName": "gpus", "devices": 4}},
            "parallelism": {"tensor": 2, "pipeline": 2},
            "nodes": 2,
        },
        "spec.accelerator.claim.devices: a pod computes on 2, not on 4",
    ),
    (
        LLAMA | GPUS | {"nodes": 2},
        "spec.nodes: engine llama.cpp is not known to span several; leave it at 1, or use vllm, sglang",
    ),
    (
        {"engine": "friendli", "image": "friendli:1", "engineArgs": {"num_devices": 2}},
        "spec.engineArgs.num_devices: the spec's own fields say it",
    ),
    (SGLANG | {"engineArgs": {"nnodes": 2}}, "spec.engineArgs.nnodes: the spec's own fields say it"),
    ({"env": [{"name": "A", "value": "1"}, {"name": "A"}]}, "spec.env: A occurs 2 times"),
    (
        {
            "model": MODEL | {"token": {"secretKeyRef": {"name": "s", "key": "k"}}},
            "env": [{"name": "HF_TOKEN", "value": "1"}],
        },
        "use spec.model.token",
    ),
    (
        {"podTemplate": {"spec": {"containers": [{"name": "engine", "command": ["sh"]}]}}},
        "spec.podTemplate.spec.containers",
    ),
    ({"podTemplate": {"spec": {"serviceAccountName": "a"}}}, "use spec.serviceAccountName"),
    (
        {"sleep": {"schedule": [{"start": "61 8 * * *", "duration": "1h"}]}},
        "spec.sleep.schedule[0].start",
    ),
]


@pytest.mark.parametrize(("change", "words"), BY_RULE)
def test_spec_that_breaks_a_rule_is_rejected(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpec) as found:
        ModelServer.from_manifest(manifest(**change))
    assert words in str(found.value)


@pytest.mark.parametrize(("change", "words"), BY_PROBLEM)
def test_problem_in_spec_is_reported(change: dict[str, Any], words: str) -> None:
    assert words in "; ".join(problems(server(**change)))


def test_every_rule_is_covered_by_a_rejected_spec() -> None:
    own = [
        rule.message
        for each in vars(spec).values()
        if isinstance(each, type) and issubclass(each, ApiModel) and each.__module__ == spec.__name__
        for rule in each.rules
    ]
    assert own
    assert set(own) <= {words for _, words in BY_RULE}


@pytest.mark.parametrize("name", ["Chat", "1st", "a-", "llm", "a" * 41])
def test_invalid_name_is_rejected(name: str) -> None:
    whole = manifest()
    whole["metadata"]["name"] = name
    with pytest.raises(InvalidSpec, match=r"metadata\.name"):
        ModelServer.from_manifest(whole)
    assert not all(rule.holds(name) for rule in NAME_RULES)


@pytest.mark.parametrize(
    "change",
    [
        {},
        *(
            {"image": image, "engineArgs": {"not_known_here": 1}}
            for image in (
                "vllm:newest",
                "vllm",
                f"vllm/vllm-openai:v{VLLM}rc1",
                f"vllm/vllm-openai:v{VLLM}.post1",
                f"vllm/vllm-openai:v{VLLM}0",
                f"own/server:v{VLLM}",
                f"vllm:5000/server@sha256:{'0' * 64}",
            )
        ),
        CUSTOM | {"command": ["serve", "{weights}"], "args": ["--port={port}", "{}", '{"a": {"b": 1}}']},
        {"model": {"name": "t", "source": "s3://b/m"}, "engineArgs": {"load_format": "runai_streamer"}},
        CUSTOM | {"model": {"name": "t", "source": "s3://b/m"}},
        CUSTOM | {"protocol": "Any", "readinessPath": "/models/{model}"},
        {"accelerator": {"kind": "gpu"}, "parallelism": {"tensor": 4}, "state": "Asleep"},
        GPUS | {"nodes": 2},
        {"podTemplate": {"spec": {"containers": [{"name": "engine", "env": [{"name": "A", "value": "b"}]}]}}},
    ],
)
def test_valid_spec_passes_validation_and_json_schema(change: dict[str, Any]) -> None:
    assert problems(server(**change)) == ()
    whole = manifest(**change)
    whole["metadata"] = {"name": "chat"}
    jsonschema.validate(whole, json_schema(MODEL_SERVER))


def test_every_placeholder_in_profiles_has_a_value() -> None:
    for profile in profiles().values():
        assert not list(unknown(profile.of_container))
        assert not list(unknown([profile.readiness_path, profile.effective_probe_path], OF_PATHS))


def test_profile_with_missing_or_unknown_field_is_rejected() -> None:
    whole = profiles()["vllm"].model_dump(by_alias=True)
    for field in ("port", "readinessPath", "flagStyle"):
        with pytest.raises(ValueError, match="Field required"):
            EngineProfile.model_validate({name: value for name, value in whole.items() if name != field})
    with pytest.raises(ValueError, match="extra"):
        EngineProfile.model_validate({**whole, "colour": "red"})


def test_engine_of_installation_is_accepted_and_checked() -> None:
    own = {
        "image": "embedder:1",
        "args": ["--model={weights}", "--revision={revision}"],
        "flagStyle": "none",
        "port": 8090,
        "readinessPath": "/{model}/up",
        "protocol": "Any",
    }
    engines = with_own(json.dumps({"embedder": own}))
    model = {"name": "tiny", "source": "hf://a/b", "revision": "main"}
    one, wrong = read(manifest(engine="embedder", model=model), engines)
    assert one is not None
    assert wrong == ()
    assert (one.image, one.profile.port, one.readiness_path) == ("embedder:1", 8090, "/tiny/up")
    newer, _ = read(manifest(engine="embedder", model=model, image="embedder:2"), engines)
    assert newer is not None
    assert newer.image == "embedder:2"
    [message] = read(manifest(engine="embedder", model=model | {"revision": None}), engines)[1]
    assert "spec.model.revision: engine embedder needs one" in message
    nobody, [message] = read(manifest(engine="embeder", model=model), engines)
    assert nobody is None
    assert message == "spec.engine: embeder is not known here; did you mean embedder?"


def test_server_of_unusable_engine_reports_cause() -> None:
    engines = with_own(
        json.dumps({"own": {"args": ["{weight}"], "flagStyle": "none", "port": 1, "readinessPath": "/"}})
    )
    nobody, [message] = read(manifest(engine="own"), engines)
    assert nobody is None
    assert message == (
        "spec.engine: own cannot be used, as the chart's value has it: engines.own: {weight} has no value; "
        "did you mean {weights}?"
    )
    usual, wrong = read(manifest(), engines)
    assert usual is not None
    assert wrong == ()


def test_crd_has_names_printer_columns_and_scale_subresource() -> None:
    found = crd.CRD.manifest()
    assert found["metadata"]["name"] == "modelservers.daybreak.dev"
    assert found["spec"]["names"]["shortNames"] == ["ms"]
    [version] = found["spec"]["versions"]
    assert {"Ready", "Phase", "Engine", "URL"} <= {c["name"] for c in version["additionalPrinterColumns"]}
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.replicas"


def test_every_field_has_a_meaning() -> None:
    rows = [line for line in server_api_md().splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert all(row.rstrip(" |").rpartition("| ")[2] for row in rows)
