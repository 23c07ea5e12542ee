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


def test_serves_proxies_alone_need_no_class_of_ours() -> None:
    """An image without Daybreak's package must be able to serve this way."""
    assert "server_cls" not in llm_config(service(runtime={"directIngress": False}))


def test_the_class_keeps_the_names_of_the_deployments() -> None:
    """Serve names a deployment after the last part of its class, and all other code uses that name."""
    assert f"{SERVER_CLASS.rpartition(':')[2]}:m" == names.serve_deployment("m")


@pytest.mark.parametrize("svc", [service(), EVERYTHING, service(replicas=0)], ids=["least", "most", "zero"])
def test_ray_knows_every_field_and_takes_every_value(svc: Any) -> None:
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
def test_ray_has_each_request_router_and_its_arguments(policy: RoutingPolicy) -> None:
    config = deployment(service(model(routing={"policy": policy.value})))["request_router_config"]
    assert set(config["request_router_kwargs"]) <= set(RAY["routers"][config["request_router_class"]])


def test_a_prefix_is_forgotten_some_day_and_load_counts_too() -> None:
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


def test_another_policy_is_another_application_since_serve_keeps_its_routers() -> None:
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


def test_the_schema_refuses_what_ray_does_not_know() -> None:
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
def test_what_may_change_without_a_restart_leaves_the_arguments_alone(change: dict[str, Any]) -> None:
    before, after = application(service()), application(service(model(**change)))
    assert before["args"] == after["args"]
    assert before["deployments"] != after["deployments"]


def test_a_change_of_the_engine_is_a_change_of_the_arguments() -> None:
    changed = service(model(engine={"args": {"max_model_len": 1}}))
    assert application(service())["args"] != application(changed)["args"]
    assert application(service())["deployments"] == application(changed)["deployments"]


def test_the_order_in_which_arguments_are_written_changes_nothing() -> None:
    one = {"max_model_len": 1, "compilation_config": {"level": 1, "cudagraph_mode": "NONE"}}
    other = {"compilation_config": {"cudagraph_mode": "NONE", "level": 1}, "max_model_len": 1}
    texts = {serve_config(service(model(engine={"args": args})).workload) for args in (one, other)}
    assert len(texts) == 1


def test_a_whole_number_is_written_alike_with_and_without_a_fraction() -> None:
    texts = {
        serve_config(service(model(replicas={"targetOngoingRequests": target})).workload)
        for target in (16, 16.0)
    }
    assert texts == {serve_config(service().workload)}


def test_autoscaling_aims_at_no_more_requests_than_a_replica_takes() -> None:
    few = application(service(model(serve={"maxOngoingRequests": 7})))
    [found] = [each for each in few["deployments"] if each.get("max_ongoing_requests") == 7]
    assert found["autoscaling_config"]["target_ongoing_requests"] == 7


def test_initial_replicas_are_left_out_where_they_say_nothing() -> None:
    # Serve would return to this number at every change of the deployment's options.
    grown = deployment(service(model(replicas={"min": 2, "max": 8})))
    assert "initial_replicas" not in grown["autoscaling_config"]


def test_serve_never_takes_the_last_replica_of_a_model_that_is_awake() -> None:
    for svc in (service(model(replicas={"min": 0})), service(replicas=0)):
        scaling = deployment(svc)["autoscaling_config"]
        assert (scaling["min_replicas"], scaling["max_replicas"]) == (1, 1)
        assert "initial_replicas" not in scaling


def test_a_model_that_falls_asleep_stops_at_once_and_what_it_is_stays() -> None:
    svc = service(model(replicas={"min": 2, "max": 8}))
    sleeping = replace(svc, asleep=frozenset({"m"}))
    scaling = deployment(sleeping)["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["initial_replicas"], scaling["max_replicas"]) == (0, 0, 1)
    assert configuration(sleeping.workload) == configuration(svc.workload), "no replica is restarted by it"


def test_models_of_equal_size_ask_for_different_resources() -> None:
    configs = application(service(model(name="a"), model(name="b")))["args"]["llm_configs"]
    bundles = [config["placement_group_config"]["bundle_per_worker"] for config in configs]
    assert bundles == [{"CPU": 1, "GPU": 1, "model-a": 1}, {"CPU": 1, "GPU": 1, "model-b": 1}]


def test_a_model_on_the_cpu_asks_for_no_accelerator() -> None:
    config = llm_config(service(model(accelerator={"kind": "cpu"})))
    assert config["accelerator_config"] == {"kind": "cpu"}
    assert "GPU" not in config["placement_group_config"]["bundle_per_worker"]


@pytest.mark.parametrize("domains", [["images.example.com"], [], None])
def test_the_engine_fetches_no_media_unless_a_person_says_from_where(domains: list[str] | None) -> None:
    def allowed(args: dict[str, Any]) -> Any:
        return llm_config(service(model(engine={"args": args})))["engine_kwargs"]["allowed_media_domains"]

    assert allowed({}) == [NO_MEDIA_DOMAIN]
    assert allowed({"allowed_media_domains": domains}) == domains


def test_the_ingress_runs_on_the_head_and_never_sleeps() -> None:
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
def test_the_head_sets_how_many_ingress_processes_there_may_be(cpu: str, memory: str, processes: int) -> None:
    svc = service(runtime={"head": {"resources": {"cpu": cpu, "memory": memory}}})
    assert application(svc)["deployments"][0]["autoscaling_config"]["max_replicas"] == processes


def test_text_that_yaml_could_misread_stays_text() -> None:
    args = {"tokenizer_mode": "no", "quantization": "1e3", "load_format": "Öffnung: #1"}
    given = llm_config(service(model(engine={"args": args})))["engine_kwargs"]
    assert {name: given[name] for name in args} == args
