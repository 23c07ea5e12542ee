"""The Serve configuration: its content, and the half that contains each setting."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from daybreak import versions
from daybreak.api.common import names
from daybreak.api.ray.routing_policy import RoutingPolicy
from daybreak.ray.serve.serve_config import NO_MEDIA_DOMAIN, SERVER_CLASS, configuration, serve_config
from tests.unit.ray.services import model, service

RAY = json.loads(Path(__file__).with_name("serve_schema.json").read_text())
COMMIT = "0123456789abcdef0123456789abcdef01234567"
EVERYTHING = service(
    model(
        name="Big/model.1",
        revision=COMMIT,
        trustRemoteCode=True,
        parallelism={"tensor": 4, "pipeline": 2},
        accelerator={"type": "A10"},
        engine={"args": {"max_model_len": 8192, "disable_log_stats": True}},
        replicas={
            "min": 0,
            "max": 4,
            "initial": 2,
            "targetOngoingRequests": 12.5,
            "upscaleDelay": "1500ms",
            "downscaleDelay": "10m",
            "upscalingFactor": 2,
            "downscalingFactor": 0.5,
            "lookBackPeriod": "20s",
        },
        serve={
            "maxOngoingRequests": 64,
            "maxQueuedRequests": 100,
            "healthCheckPeriod": "5s",
            "healthCheckTimeout": "45s",
            "gracefulShutdownWait": "1s",
            "gracefulShutdownTimeout": "90s",
        },
    ),
    model(name="bucket", source="s3://bucket/prefix", routing={"policy": "Prefix"}),
)


def application(svc: Any) -> Any:
    """Return the only application of the configuration."""
    [found] = yaml.safe_load(serve_config(svc.workload))["applications"]
    return found


def llm_config(svc: Any) -> Any:
    """Return the configuration that Ray Serve LLM receives for the service's first model."""
    return application(svc)["args"]["llm_configs"][0]


def deployment(svc: Any) -> Any:
    """Return the Serve deployment of the service's first model."""
    return application(svc)["deployments"][1]


def test_every_serve_setting_of_the_api_is_handed_to_serve() -> None:
    assert deployment(EVERYTHING) == {
        "name": "LLMServer:Big--model_1",
        "max_ongoing_requests": 64,
        "max_queued_requests": 100,
        "health_check_period_s": 5,
        "health_check_timeout_s": 45,
        "graceful_shutdown_wait_loop_s": 1,
        "graceful_shutdown_timeout_s": 90,
        "autoscaling_config": {
            "min_replicas": 1,
            "initial_replicas": 2,
            "max_replicas": 4,
            "target_ongoing_requests": 12.5,
            "upscale_delay_s": 1.5,
            "downscale_delay_s": 600,
            "upscaling_factor": 2,
            "downscaling_factor": 0.5,
            "look_back_period_s": 20,
        },
    }


def test_every_model_setting_of_the_api_is_handed_to_serve_llm() -> None:
    assert llm_config(EVERYTHING) == {
        "model_loading_config": {"model_id": "Big/model.1", "model_source": "owner/m"},
        "accelerator_config": {"kind": "gpu"},
        "accelerator_type": "A10G",
        "placement_group_config": {
            "bundle_per_worker": {"CPU": 1, "GPU": 1, names.model_resource("Big/model.1"): 1},
            "strategy": "PACK",
        },
        "engine_kwargs": {
            "allowed_media_domains": [NO_MEDIA_DOMAIN],
            "disable_log_stats": True,
            "max_model_len": 8192,
            "revision": COMMIT,
            "tensor_parallel_size": 4,
            "pipeline_parallel_size": 2,
            "trust_remote_code": True,
        },
        "log_engine_metrics": False,
        "server_cls": SERVER_CLASS,
    }


def test_config_without_direct_ingress_sets_no_server_class() -> None:
    """An image without Daybreak's package must be able to serve this way."""
    assert "server_cls" not in llm_config(service(runtime={"directIngress": False}))


def test_server_class_name_matches_deployment_name() -> None:
    """Serve names a deployment after the last part of its class, and all other code uses that name."""
    assert f"{SERVER_CLASS.rpartition(':')[2]}:m" == names.serve_deployment("m")


@pytest.mark.parametrize("svc", [service(), EVERYTHING, service(replicas=0)], ids=["least", "most", "zero"])
def test_config_is_valid_against_the_ray_schema(svc: Any) -> None:
    assert RAY["ray"] == versions.RAY, "recreate tests/unit/ray/serve_schema.json for this Ray"
    document = yaml.safe_load(serve_config(svc.workload))
    [app] = document["applications"]

    def fits(value: Any, schema: str) -> None:
        jsonschema.Draft202012Validator(RAY["schemas"][schema]).validate(value)

    fits(document, "document")
    fits(app["args"], "args")
    fits(app["args"]["ingress_deployment_config"]["ray_actor_options"], "actor_options")
    for config in app["args"]["llm_configs"]:
        fits(config, "llm_config")
        fits(config["model_loading_config"], "model_loading")
        fits(config["placement_group_config"], "placement_group")
    for options in app["deployments"]:
        fits(options["autoscaling_config"], "autoscaling")
        fits(options.get("request_router_config", {}), "request_router")


@pytest.mark.parametrize("policy", list(RoutingPolicy))
def test_each_routing_policy_uses_arguments_known_to_ray(policy: RoutingPolicy) -> None:
    config = deployment(service(model(routing={"policy": policy.value})))["request_router_config"]
    assert set(config["request_router_kwargs"]) <= set(RAY["routers"][config["request_router_class"]])


def test_prefix_policy_enables_eviction_and_load_threshold() -> None:
    # Ray's defaults keep every prompt forever, and send all prompts with one beginning to one replica.
    config = deployment(service(model(routing={"policy": "Prefix"})))["request_router_config"]
    assert config["request_router_kwargs"] == {
        "imbalanced_threshold": 16,
        "match_rate_threshold": 0.1,
        "do_eviction": True,
        "eviction_threshold_chars": 400_000,
        "eviction_target_chars": 360_000,
    }


def test_settings_of_a_policy_reach_ray() -> None:
    def kwargs(routing: dict[str, Any]) -> Any:
        return deployment(service(model(routing=routing)))["request_router_config"]["request_router_kwargs"]

    session = {"fallbackReplicas": 0, "virtualNodes": 7}
    assert kwargs({"policy": "Session", "session": session}) == {
        "num_fallback_replicas": 0,
        "num_virtual_nodes": 7,
    }
    prefix = {"imbalancedThreshold": 1, "matchRateThreshold": 0.5, "evictionTargetChars": 3}
    assert kwargs({"policy": "Prefix", "prefix": prefix}) == {
        "imbalanced_threshold": 1,
        "match_rate_threshold": 0.5,
        "do_eviction": True,
        "eviction_threshold_chars": 400_000,
        "eviction_target_chars": 3,
    }


def test_routing_policy_change_changes_the_application_arguments() -> None:
    plain, one, other = (
        application(service(model(**fields)))
        for fields in ({}, {"routing": {"policy": "RoundRobin"}}, {"routing": {"policy": "Session"}})
    )
    assert "request_router_config" not in plain["deployments"][1]
    assert "deployment_config" not in plain["args"]["llm_configs"][0]
    assert plain["args"] != one["args"] != other["args"]
    for app in (one, other):
        # Both halves must be equal: Serve reads the class from one and keeps the other.
        [config] = app["args"]["llm_configs"]
        assert config["deployment_config"] == {
            "request_router_config": app["deployments"][1]["request_router_config"]
        }


def test_ray_schema_rejects_unknown_field() -> None:
    schema = RAY["schemas"]["autoscaling"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate({"min_replica": 1})


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": {"min": 2, "max": 9}},
        {"replicas": {"targetOngoingRequests": 3}},
        {"serve": {"maxOngoingRequests": 3}},
        {"serve": {"healthCheckPeriod": "3s"}},
        {"serve": {"gracefulShutdownTimeout": "3s"}},
    ],
)
def test_in_place_change_changes_deployments_and_not_arguments(change: dict[str, Any]) -> None:
    before, after = application(service()), application(service(model(**change)))
    assert before["args"] == after["args"]
    assert before["deployments"] != after["deployments"]


def test_engine_change_changes_arguments_and_not_deployments() -> None:
    changed = service(model(engine={"args": {"max_model_len": 1}}))
    assert application(service())["args"] != application(changed)["args"]
    assert application(service())["deployments"] == application(changed)["deployments"]


def test_config_is_unchanged_if_arguments_are_reordered() -> None:
    one = {"max_model_len": 1, "compilation_config": {"level": 1, "cudagraph_mode": "NONE"}}
    other = {"compilation_config": {"cudagraph_mode": "NONE", "level": 1}, "max_model_len": 1}
    texts = {serve_config(service(model(engine={"args": args})).workload) for args in (one, other)}
    assert len(texts) == 1


def test_config_is_equal_for_integer_and_whole_float_target() -> None:
    texts = {
        serve_config(service(model(replicas={"targetOngoingRequests": target})).workload)
        for target in (16, 16.0)
    }
    assert texts == {serve_config(service().workload)}


def test_autoscaling_target_is_capped_at_max_ongoing_requests() -> None:
    few = application(service(model(serve={"maxOngoingRequests": 7})))
    [found] = [each for each in few["deployments"] if each.get("max_ongoing_requests") == 7]
    assert found["autoscaling_config"]["target_ongoing_requests"] == 7


def test_initial_replicas_are_omitted_if_spec_sets_none() -> None:
    # Serve would return to this number at every change of the deployment's options.
    grown = deployment(service(model(replicas={"min": 2, "max": 8})))
    assert "initial_replicas" not in grown["autoscaling_config"]


def test_awake_model_keeps_a_replica_if_minimum_is_zero() -> None:
    for svc in (service(model(replicas={"min": 0})), service(replicas=0)):
        scaling = deployment(svc)["autoscaling_config"]
        assert (scaling["min_replicas"], scaling["max_replicas"]) == (1, 1)
        assert "initial_replicas" not in scaling


def test_sleeping_model_scales_to_zero_without_configuration_change() -> None:
    svc = service(model(replicas={"min": 2, "max": 8}))
    sleeping = replace(svc, asleep=frozenset({"m"}))
    scaling = deployment(sleeping)["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["initial_replicas"], scaling["max_replicas"]) == (0, 0, 1)
    assert configuration(sleeping.workload) == configuration(svc.workload), "no replica is restarted by it"


def test_models_of_equal_size_ask_for_different_resources() -> None:
    configs = application(service(model(name="a"), model(name="b")))["args"]["llm_configs"]
    bundles = [config["placement_group_config"]["bundle_per_worker"] for config in configs]
    assert bundles == [{"CPU": 1, "GPU": 1, "model-a": 1}, {"CPU": 1, "GPU": 1, "model-b": 1}]


def test_cpu_model_requests_no_accelerator() -> None:
    config = llm_config(service(model(accelerator={"kind": "cpu"})))
    assert config["accelerator_config"] == {"kind": "cpu"}
    assert "GPU" not in config["placement_group_config"]["bundle_per_worker"]


@pytest.mark.parametrize("domains", [["images.example.com"], [], None])
def test_engine_fetches_no_media_unless_domains_are_configured(domains: list[str] | None) -> None:
    def allowed(args: dict[str, Any]) -> Any:
        return llm_config(service(model(engine={"args": args})))["engine_kwargs"]["allowed_media_domains"]

    assert allowed({}) == [NO_MEDIA_DOMAIN]
    assert allowed({"allowed_media_domains": domains}) == domains


def test_ingress_runs_on_head_and_keeps_a_replica() -> None:
    app = application(service(model(replicas={"min": 0})))
    assert app["args"]["ingress_deployment_config"] == {
        "ray_actor_options": {"num_cpus": 0, "resources": {"daybreak-head": 0.001}}
    }
    ingress = app["deployments"][0]
    assert ingress["name"] == "OpenAiIngress"
    assert ingress["autoscaling_config"]["min_replicas"] == 1
    # A process is at its limit with 64 concurrent chat streams.
    assert ingress["autoscaling_config"]["target_ongoing_requests"] < 64


@pytest.mark.parametrize(
    ("cpu", "memory", "processes"),
    [
        ("300m", "4Gi", 1),
        ("1", "4Gi", 1),
        ("4", "4Gi", 1),
        ("4", "16Gi", 4),
        # Ray needs 2.6 GiB, and each process 1,174 MiB: a fifth would exceed the head's memory.
        ("16", "8Gi", 4),
        ("1", "1Gi", 1),
    ],
)
def test_head_resources_limit_number_of_ingress_processes(cpu: str, memory: str, processes: int) -> None:
    svc = service(runtime={"head": {"resources": {"cpu": cpu, "memory": memory}}})
    assert application(svc)["deployments"][0]["autoscaling_config"]["max_replicas"] == processes


def test_text_that_yaml_could_misread_stays_text() -> None:
    args = {"tokenizer_mode": "no", "quantization": "1e3", "load_format": "Öffnung: #1"}
    given = llm_config(service(model(engine={"args": args})))["engine_kwargs"]
    assert {name: given[name] for name in args} == args
