"""Objects of a ModelServer."""

from dataclasses import replace
from typing import Any

import pytest

from daybreak.api.common import names, volume_names
from daybreak.kinds.modelserver.objects.deployment import configuration, deployment, wishes
from daybreak.kinds.modelserver.objects.desired import desired
from daybreak.ray.ports import SERVE
from tests.unit.modelserver.servers import CUSTOM, LLAMA, PLATFORM, SGLANG, server


def container(**spec: Any) -> dict[str, Any]:
    """Return the engine's container."""
    pods = deployment(server(**spec), PLATFORM, 1)["spec"]["template"]["spec"]
    [found] = pods["containers"]
    assert found["name"] == "engine"
    return dict(found)


def of_kind(kind: str, gateway: int | None = 20001, **spec: Any) -> dict[str, Any]:
    """Return the object of this kind."""
    [found] = [each for each in desired(server(**spec), PLATFORM, gateway, 1) if each["kind"] == kind]
    return found


def test_vllm_command_uses_vllm_argument_names() -> None:
    found = container(engineArgs={"max_model_len": 1024, "enable_prefix_caching": False})
    assert found["command"] == ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    words = " ".join(found["args"])
    assert words.startswith(
        "--model /models/tiny --served-model-name tiny --port 8000 --shutdown-timeout 120"
    )
    assert "--max-model-len 1024" in words
    assert "--no-enable-prefix-caching" in words
    assert "--allowed-media-domains" in words, "the engine fetches no address that a client sends"
    assert found["image"] == PLATFORM.ray_cpu_image
    assert found["readinessProbe"]["httpGet"] == {"path": "/health", "port": 8000}
    assert found["ports"] == [{"name": "http", "containerPort": SERVE}]


def test_vllm_command_includes_parallelism_and_revision() -> None:
    found = container(
        model={"name": "m", "source": "hf://a/b", "revision": "main"},
        accelerator={"kind": "gpu"},
        parallelism={"tensor": 2, "pipeline": 2},
    )
    words = " ".join(found["args"])
    assert "--model a/b" in words
    assert "--tensor-parallel-size 2 --pipeline-parallel-size 2" in words
    assert "--revision main" in words
    assert found["resources"]["requests"]["nvidia.com/gpu"] == "4", "all of them in one pod"


def test_custom_engine_runs_command_with_placeholders_filled_in() -> None:
    found = container(
        **CUSTOM, command=["serve", "{weights}"], args=["{model}:{port}", "{drain}", '{"a": 1}'],
        port=9000, readinessPath="/up", gracefulShutdownTimeout="30s",
    )  # fmt: skip
    assert found["command"] == ["serve", "/models/tiny"]
    assert found["args"] == ["tiny:9000", "30", '{"a": 1}']
    assert found["readinessProbe"]["httpGet"] == {"path": "/up", "port": 9000}
    plain = container(**CUSTOM)
    assert "command" not in plain
    assert "args" not in plain


@pytest.mark.parametrize(
    ("spec", "ready", "answer"),
    [
        ({}, "/health", ""),
        (CUSTOM, "/health", ""),
        ({"protocol": "Any"}, "/health", ""),
        (CUSTOM | {"protocol": "OpenAI", "readinessPath": "/up"}, "/up", ""),
        (CUSTOM | {"protocol": "Any", "readinessPath": "/api/{model}"}, "/api/tiny", "/api/tiny"),
        (CUSTOM | {"protocol": "V2"}, "/v2/models/tiny/ready", "/v2/models/tiny/ready"),
        (CUSTOM | {"protocol": "V2", "readinessPath": "/v2/health/ready"}, *["/v2/health/ready"] * 2),
    ],
)
def test_readiness_and_answer_paths_follow_protocol_and_spec(
    spec: dict[str, Any], ready: str, answer: str
) -> None:
    one = server(**spec)
    assert container(**spec)["readinessProbe"]["httpGet"]["path"] == one.readiness_path == ready
    assert one.answer_path == answer, "none: a completion"


def test_model_name_is_escaped_in_readiness_path() -> None:
    one = server(**CUSTOM, protocol="V2", model={"name": "qwen/3", "source": "file:///m"})
    assert one.readiness_path == "/v2/models/qwen%2F3/ready"


def test_sglang_command_uses_sglang_argument_names() -> None:
    found = container(
        **SGLANG,
        model={"name": "m", "source": "hf://a/b", "revision": "f" * 40, "trustRemoteCode": True},
        accelerator={"kind": "gpu"},
        parallelism={"tensor": 2},
        engineArgs={"mem_fraction_static": 0.8, "enable_mixed_chunk": True, "enable-p2p-check": False},
    )
    assert found["command"] == ["python3", "-m", "sglang.launch_server"]
    assert " ".join(found["args"]) == (
        "--model-path a/b --served-model-name m --host 0.0.0.0 --port 30000 --tp-size 2 --pp-size 1 "
        f"--enable-metrics --revision {'f' * 40} --trust-remote-code --mem-fraction-static 0.8 "
        "--enable-mixed-chunk"
    )
    assert found["image"] == "sglang:1"
    assert found["readinessProbe"]["httpGet"] == {"path": "/health", "port": 30000}
    assert {"name": "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "value": "false"} in found["env"]
    assert "--revision" not in container(**SGLANG)["args"]


def test_llama_cpp_command_names_file_or_repository() -> None:
    listens = "--alias m --host 0.0.0.0 --port 8080 --metrics"
    found = container(
        **LLAMA,
        model={"name": "m", "source": "pvc://claim/m.gguf"},
        engineArgs={"ctx_size": 4096, "tags": ["a", "b"]},
    )
    assert "command" not in found, "the image's own"
    assert " ".join(found["args"]) == f"{listens} --model /models/m/m.gguf --ctx-size 4096 --tags a b"
    hub = container(**LLAMA, model={"name": "m", "source": "hf://a/b"}, engineArgs={"hf_file": "q4.gguf"})
    assert " ".join(hub["args"]) == f"{listens} --hf-repo a/b --hf-file q4.gguf"


def test_weights_of_a_claim_are_mounted() -> None:
    found = container(model={"name": "m", "source": "pvc://claim/deep"})
    [mount] = [each for each in found["volumeMounts"] if each["name"] == volume_names.WEIGHTS_VOLUME]
    assert mount["readOnly"]
    assert f"--model {mount['mountPath']}/deep" in " ".join(found["args"])


def test_sleep_changes_only_number_of_replicas_to_zero() -> None:
    awake, asleep = (desired(server(), PLATFORM, 20001, replicas) for replicas in (1, 0))
    assert asleep[-1]["spec"].pop("replicas") == 0
    assert awake[-1]["spec"].pop("replicas") == 1
    assert awake == asleep


def test_objects_have_names_and_labels_of_model_server() -> None:
    objects = desired(server(), PLATFORM, 20001, 1)
    assert {each["kind"]: each["metadata"]["name"] for each in objects} == {
        "ServiceAccount": "server.chat-sa",
        "NetworkPolicy": "server.chat-ray",
        "PodDisruptionBudget": "server.chat-ray",
        "Service": "chat",
        "Deployment": "chat-server",
    }
    labels = [each["metadata"]["labels"] for each in objects]
    labels.append(objects[-1]["spec"]["template"]["metadata"]["labels"])
    assert {names.labelled_owner(each) for each in labels} == {"server.chat"}
    assert {each[names.NAME_LABEL] for each in labels} == {"modelserver"}
    for each in objects:
        [owner] = each["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("ModelServer", "chat", "u-1")


def test_server_is_reachable_through_gateway() -> None:
    front = of_kind("Service")["spec"]
    assert front["selector"] == names.gateway_selector()
    assert front["ports"][0]["targetPort"] == 20001
    [rule] = of_kind("NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": SERVE}]
    assert {"podSelector": {"matchLabels": names.gateway_selector()}} in rule["from"]


SCRAPERS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


@pytest.mark.parametrize(
    ("spec", "port", "path"),
    [
        ({}, 8000, "/metrics"),
        (SGLANG, 30000, "/metrics"),
        (LLAMA, 8080, "/metrics"),
        ({"engine": "tgi", "image": "tgi:1"}, 3000, "/metrics"),
        ({"engine": "triton", "image": "triton:1"}, 8002, "/metrics"),
        ({"engine": "friendli", "image": "friendli:1"}, 8281, "/metrics"),
        (CUSTOM | {"metricsPath": "/stats", "metricsPort": 9100}, 9100, "/stats"),
        (CUSTOM | {"metricsPath": "/stats", "port": 9000}, 9000, "/stats"),
        (CUSTOM, None, None),
        ({"engine": "ollama", "image": "ollama:1"}, None, None),
    ],
)
def test_metrics_port_is_annotated_and_opened_for_scrapers(
    spec: dict[str, Any], port: int | None, path: str | None
) -> None:
    pods = of_kind("Deployment", **spec)["spec"]["template"]
    message = pods["metadata"].get("annotations", {})
    expected = {"prometheus.io/scrape": "true", "prometheus.io/port": str(port), "prometheus.io/path": path}
    assert message == (expected if port is not None else {})
    numbers = [each["containerPort"] for each in pods["spec"]["containers"][0]["ports"]]
    assert len(set(numbers)) == len(numbers), "server-side apply merges by number"
    assert port is None or port in numbers
    platform = replace(PLATFORM, engine_metrics_from=(SCRAPERS,))
    [policy] = [
        each for each in desired(server(**spec), platform, 20001, 1) if each["kind"] == "NetworkPolicy"
    ]
    opened = [each["ports"] for each in policy["spec"]["ingress"] if each["from"] == [SCRAPERS]]
    assert opened == ([[{"protocol": "TCP", "port": port}]] if port is not None else [])


def test_enable_metrics_argument_of_user_has_precedence() -> None:
    assert "--enable-metrics" not in container(**SGLANG, engineArgs={"enable_metrics": False})["args"]
    on = container(**SGLANG, engineArgs={"enable-metrics": True})["args"]
    assert on.count("--enable-metrics") == 1


def test_annotations_of_pod_template_have_precedence() -> None:
    own = {"metadata": {"annotations": {"prometheus.io/scrape": "false", "a": "b"}}}
    message = of_kind("Deployment", podTemplate=own)["spec"]["template"]["metadata"]["annotations"]
    assert (message["prometheus.io/scrape"], message["a"], message["prometheus.io/port"]) == (
        "false",
        "b",
        "8000",
    )


def test_front_service_selects_pods_without_gateway() -> None:
    front = of_kind("Service", None, **CUSTOM, port=9000)["spec"]
    assert front["selector"] == {**names.owner_labels("server.chat"), names.COMPONENT_LABEL: "server"}
    assert front["ports"][0]["targetPort"] == 9000
    [rule] = of_kind("NetworkPolicy", None)["spec"]["ingress"]
    assert "from" not in rule


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"replicas": 3}, True),
        ({"sleep": None}, True),
        ({"hold": {"maxRequests": 1}}, True),
        ({"maxOngoingRequests": 1}, True),
        ({"engineArgs": {"max_num_seqs": 1}}, False),
        ({"image": "other"}, False),
        ({"env": [{"name": "A", "value": "b"}]}, False),
    ],
)
def test_configuration_changes_only_if_pods_change(change: dict[str, Any], same: bool) -> None:
    before, after = (deployment(server(**each), PLATFORM, 1) for each in ({}, change))
    assert (configuration(before) == configuration(after)) is same
    assert (wishes(server()) == wishes(server(**change))) is same


def test_termination_grace_period_covers_pre_stop_and_shutdown() -> None:
    pods = deployment(server(gracefulShutdownTimeout="1m"), PLATFORM, 1)["spec"]["template"]["spec"]
    wait = pods["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pods["terminationGracePeriodSeconds"] >= wait + 60
