"""Objects of a benchmark: its Job, and the order that the runtime reads from it."""

import json
from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmbenchmark.objects.desired import desired
from daybreak.kinds.llmbenchmark.objects.job import job_digest
from daybreak.kinds.llmbenchmark.objects.target import Target, TargetMissing, target
from daybreak.platform import Platform
from daybreak_runtime.benchmark.order import Order
from tests.unit.llmbenchmark.benchmarks import benchmark, of_service, service

PLATFORM = Platform(ray_image="ray", ray_cpu_image="ray-cpu", operator_namespace="daybreak-system")


def made(one: LLMBenchmark, of: LLMService | None = None) -> dict[str, Any]:
    """Return the Job."""
    return {each["kind"]: each for each in desired(one, target(one, of), PLATFORM)}["Job"]


def pod(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]["spec"]
    return found


def read_report(job: dict[str, Any]) -> Order:
    """Return the order as the runtime reads it."""
    [found] = [each for each in pod(job)["containers"][0]["env"] if each["name"] == "DAYBREAK_BENCHMARK"]
    return Order.read(json.loads(found["value"]))


def test_job_pod_runs_benchmark_with_expected_image_and_account() -> None:
    job = made(benchmark())
    [container] = pod(job)["containers"]
    assert container["command"] == ["python", "-m", "daybreak_runtime.benchmark"]
    assert container["image"] == "ray-cpu"
    assert container["ports"] == [{"name": "benchmark", "containerPort": 8300}]
    assert pod(job)["restartPolicy"] == "Never"
    assert pod(job)["serviceAccountName"] == "benchmark.tune-sa"
    assert pod(job)["automountServiceAccountToken"] is False
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert names.labelled_owner(labels) == "benchmark.tune"
    assert labels["app.kubernetes.io/name"] == "llmbenchmark"


def test_service_benchmark_pod_has_no_visible_device() -> None:
    of = benchmark(**of_service(mode="Service"), sweep=None, runtime={"image": "ray-gpu"})
    [container] = pod(made(of, service()))["containers"]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]
    assert container["image"] == "ray-gpu"


def test_runtime_reads_order_that_operator_writes() -> None:
    load = {
        "clients": [1, 8],
        "promptTokens": {"distribution": "Uniform", "min": 3, "max": 9},
        "trace": [{"prompt": 3, "output": 4}],
        "sharedPrefix": {"tokens": 5, "count": 2},
        "windowDuration": "1m",
        "warmupDuration": "500ms",
    }
    objective = {"maximize": "TokensPerSecond", "ttftP99": "2s", "tpotP99": "50ms"}
    found = read_report(
        made(
            benchmark(
                load=load,
                objective=objective,
                stop={"patience": 2},
                budget={"time": "1h", "engineStarts": 9},
                output={"uri": "pvc://reports/x"},
            )
        )
    )
    assert (found.uid, found.port) == ("u-1", 8300)
    assert (found.load.clients, found.load.recorded, found.load.prefixes) == ((1, 8), ((3, 4),), 2)
    assert (found.load.prompt_tokens.kind, found.load.seconds, found.load.ramp_seconds) == (
        "Uniform",
        60,
        0.5,
    )
    assert (found.objective.ttft_p99_ms, found.objective.tpot_p99_ms) == (2000, 50)
    assert (found.stop.patience, found.budget.seconds, found.budget.engine_starts) == (2, 3600, 9)
    assert found.sweep[0].values == (1, 2, 4)
    assert found.engine is not None
    assert found.engine.args["max_model_len"] == 1024
    assert found.engine.source == "/models/tiny"
    assert found.output is not None
    assert found.output.startswith("file:///rows/")


def test_report_claim_is_mounted_at_output_path() -> None:
    job = made(benchmark(output={"uri": "pvc://reports/x"}))
    output = read_report(job).output or ""
    mounts = [each["mountPath"] for each in pod(job)["containers"][0]["volumeMounts"]]
    assert any(output.removeprefix("file://").startswith(f"{path}/") for path in mounts)
    claims = [each.get("persistentVolumeClaim") for each in pod(job)["volumes"]]
    assert {"claimName": "reports"} in claims


def test_recorded_lengths_are_read_from_a_claim_or_a_bucket() -> None:
    table = {"uri": "pvc://reports/day.csv", "promptColumn": "in", "outputColumn": "out", "format": "CSV"}
    job = made(benchmark(load={"clients": [1], "traceFrom": table}, output={"uri": "pvc://reports/x"}))
    found = read_report(job).load.recorded_from
    assert found is not None
    assert (found.shown, found.format, found.prompt_column) == ("pvc://reports/day.csv", "CSV", "in")
    [mount] = [
        each for each in pod(job)["containers"][0]["volumeMounts"] if each["mountPath"].startswith("/rows")
    ]
    assert found.uri == f"file://{mount['mountPath']}/day.csv"
    bucket = read_report(
        made(benchmark(load={"clients": [1], "traceFrom": {"uri": "s3://b/day.parquet"}}))
    ).load
    assert bucket.recorded_from is not None
    assert bucket.recorded_from.uri == "s3://b/day.parquet"


def test_recorded_lengths_are_mounted_from_optional_config_map() -> None:
    source = {"configMapKeyRef": {"name": "lengths", "key": "day.csv"}}
    for one, of in (
        (benchmark(load={"clients": [1], "traceFrom": source}), None),
        (
            benchmark(**of_service(mode="Service"), sweep=None, load={"clients": [1], "traceFrom": source}),
            service(),
        ),
    ):
        job = made(one, of)
        found = read_report(job).load.recorded_from
        assert found is not None
        assert (found.uri, found.shown) == ("file:///lengths/day.csv", "key day.csv of ConfigMap lengths")
        [volume] = [each for each in pod(job)["volumes"] if "configMap" in each]
        assert (volume["configMap"]["name"], volume["configMap"]["optional"]) == ("lengths", True)
        [mount] = [e for e in pod(job)["containers"][0]["volumeMounts"] if e["name"] == volume["name"]]
        assert (mount["mountPath"], mount["readOnly"]) == ("/lengths", True)


def test_copy_has_engine_of_service_and_own_accelerators() -> None:
    job = made(benchmark(**of_service()), service())
    found = read_report(job)
    assert found.engine is not None
    assert (found.engine.source, found.engine.gpus) == ("a/big", 1)
    assert found.engine.args["max_num_seqs"] == 64
    [container] = pod(job)["containers"]
    assert container["image"] == "ray"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    other = read_report(made(benchmark(**of_service(model="other")), service()))
    assert other.engine is not None
    assert other.engine.source == "a/other"


def test_copy_reads_weights_from_claim_of_service() -> None:
    job = made(benchmark(**of_service()), service(cache={"size": "1Gi"}, revision="main"))
    claims = [each.get("persistentVolumeClaim") for each in pod(job)["volumes"]]
    assert {"claimName": "chat-big-weights", "readOnly": True} in claims
    found = read_report(job)
    assert found.engine is not None
    assert found.engine.source.startswith("/models/big/")
    assert "HF_TOKEN" not in {each["name"] for each in pod(job)["containers"][0]["env"]}


def test_service_mode_uses_gateway_and_pod_without_accelerators() -> None:
    key = {"secretKeyRef": {"name": "keys", "key": "one"}}
    one = benchmark(**of_service(mode="Service", apiKey=key), sweep=None)
    job = made(one, service())
    found = read_report(job)
    assert found.engine is None
    assert found.service is not None
    assert (found.service.url, found.service.model) == ("http://chat.default.svc/v1", "big")
    [container] = pod(job)["containers"]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    [variable] = [each for each in container["env"] if each["name"] == found.service.key]
    assert variable["valueFrom"]["secretKeyRef"]["name"] == "keys"


_WITH_ADAPTER = service(lora={"adapters": [{"name": "poet", "source": "file:///poet"}]})


def test_service_mode_sends_requests_to_adapter() -> None:
    one = benchmark(**of_service(mode="Service", model="poet"), sweep=None)
    found = read_report(made(one, _WITH_ADAPTER))
    assert found.service is not None
    assert found.service.model == "poet"


@pytest.mark.parametrize(
    ("reference", "of", "words"),
    [
        ({}, None, "the spec of LLMService chat is invalid"),
        ({"model": "bigg"}, service(), "has no model bigg; did you mean big[?] available: big, other"),
        ({"model": "poet", "mode": "Service"}, service(), "has no model poet; available: big, other"),
        ({"model": "poet"}, _WITH_ADAPTER, "has no model poet; available: big, other"),
        ({}, service(parallelism={"pipeline": 2}), "the stages of a replica are 2 pods"),
    ],
)
def test_target_that_cannot_be_measured_is_rejected(
    reference: dict[str, Any], of: LLMService | None, words: str
) -> None:
    with pytest.raises(TargetMissing, match=words):
        target(benchmark(**of_service(**reference), sweep=None), of)


def test_bucket_weights_are_read_from_local_cache() -> None:
    model = {"name": "a", "source": "s3://weights/llama"}
    found = read_report(made(benchmark(model=model)))
    assert found.engine is not None
    assert found.engine.bucket == "s3://weights/llama"
    assert found.engine.source.startswith("/var/cache/daybreak/")


def test_network_policy_admits_only_operator() -> None:
    objects = {each["kind"]: each for each in desired(benchmark(), None, PLATFORM)}
    assert set(objects) == {"ServiceAccount", "NetworkPolicy"}
    [rule] = objects["NetworkPolicy"]["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8300}]
    [peer] = rule["from"]
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "operator"


@pytest.mark.parametrize(
    ("budget", "starts"), [({}, 51), ({"engineStarts": 1000}, 51), ({"engineStarts": 7}, 7)]
)
def test_engine_starts_are_limited_by_256_steps_and_budget(budget: dict[str, int], starts: int) -> None:
    """A start of an engine measures each of the 5 load levels, and 51 starts are 255 steps."""
    sweep = [{"argument": name, "values": list(range(1, 17))} for name in ("max_num_seqs", "max_model_len")]
    found = read_report(made(benchmark(sweep=sweep, load={"clients": [1, 2, 3, 4, 5]}, budget=budget)))
    assert found.budget.engine_starts == starts


def test_mutable_fields_do_not_change_digest() -> None:
    assert job_digest(benchmark()) == job_digest(benchmark(suspend=True, ttlAfterFinished="1h"))
    assert job_digest(benchmark()) != job_digest(benchmark(load={"clients": [9]}))


def test_given_service_account_is_used_and_none_is_created() -> None:
    found = desired(benchmark(runtime={"serviceAccountName": "mine"}), _own("mine"), PLATFORM)
    assert {each["kind"] for each in found} == {"NetworkPolicy", "Job"}


def _own(account: str) -> Target:
    return target(benchmark(runtime={"serviceAccountName": account}), None)
