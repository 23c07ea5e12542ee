"""The Serve configuration of an application, checked against the schema of the pinned Ray."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from daybreak import versions
from daybreak.api.schema.custom_object import InvalidSpec
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.api.serveapplication.validation import problems
from daybreak.kinds.serveapplication.objects.serve_config import configuration, serve_config
from tests.unit.serveapplication.applications import application

RAY = json.loads((Path(__file__).parents[1] / "ray" / "serve_schema.json").read_text())
WHOLE: dict[str, Any] = {
    "name": "Pipeline",
    "autoscaling": {
        "minReplicas": 2,
        "maxReplicas": 8,
        "initialReplicas": 3,
        "targetOngoingRequests": 2.5,
        "upscaleDelay": "1500ms",
        "downscaleDelay": "5m",
        "upscalingFactor": 2,
        "downscalingFactor": 0.5,
        "lookBackPeriod": "20s",
    },
    "maxOngoingRequests": 64,
    "maxQueuedRequests": 100,
    "maxReplicasPerNode": 2,
    "healthCheckPeriod": "5s",
    "healthCheckTimeout": "45s",
    "gracefulShutdownWait": "1s",
    "gracefulShutdownTimeout": "90s",
    "cpu": "500m",
    "memory": "2Gi",
    "accelerators": 0.25,
    "userConfig": {"threshold": 0.5, "names": ["a"]},
    "logging": {"level": "WARNING", "encoding": "JSON", "accessLog": False},
}
PLACED: dict[str, Any] = {
    "name": "Placed",
    "accelerators": 1,
    "memory": "4Gi",
    "placementGroup": {
        "bundles": [{"cpu": "1", "accelerators": 1}, {"cpu": "2", "accelerators": 2}],
        "strategy": "SPREAD",
    },
}
EVERYTHING: dict[str, Any] = {
    "args": {"limit": 3},
    "code": {"workingDir": "s3://bucket/code.zip"},
    "deployments": [WHOLE, PLACED, {"name": "Length", "route": "/length"}],
    "routes": [{"prefix": "/length", "importPath": "length:app", "args": {"a": 1}}],
    "llms": [{"name": "chat", "source": "hf://a/b", "accelerator": {"kind": "gpu"}}],
}


def fits(value: Any, schema: str) -> None:
    jsonschema.Draft202012Validator(RAY["schemas"][schema]).validate(value)


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("spec", [{}, EVERYTHING], ids=["least", "most"])
def test_serve_config_matches_schema_of_ray(spec: dict[str, Any], *, away: bool) -> None:
    assert RAY["ray"] == versions.RAY, "recreate tests/unit/ray/serve_schema.json for this Ray"
    one = application(**spec)
    assert problems(one) == ()
    document = yaml.safe_load(serve_config(one, away=away))
    fits(document, "document")
    for app in document["applications"]:
        for deployment in app["deployments"]:
            fits(deployment["autoscaling_config"], "autoscaling")
            fits(deployment.get("ray_actor_options", {}), "actor_options")
        for config in app.get("args", {}).get("llms", []):
            fits(config, "llm_config")
            fits(config["model_loading_config"], "model_loading")
            fits(config["placement_group_config"], "placement_group")


def test_field_unknown_to_ray_fails_schema_validation() -> None:
    document = yaml.safe_load(serve_config(application()))
    document["applications"][0]["deployments"][0]["max_replicas_per_pod"] = 1
    with pytest.raises(jsonschema.ValidationError, match="max_replicas_per_pod"):
        fits(document, "document")


def deployment(**settings: Any) -> dict[str, Any]:
    """Return the Serve settings of the only deployment."""
    document = yaml.safe_load(serve_config(application(deployments=[{"name": "One", **settings}])))
    [found] = document["applications"][0]["deployments"]
    return dict(found)


def test_replica_limit_and_logging_are_written_only_if_specified() -> None:
    assert not {"max_replicas_per_node", "logging_config"} & set(deployment())
    assert deployment(maxReplicasPerNode=1)["max_replicas_per_node"] == 1
    reported = {"log_level": "DEBUG", "encoding": "TEXT", "enable_access_log": True}
    assert deployment(logging={"level": "DEBUG"})["logging_config"] == reported


def test_replica_limit_with_placement_group_is_rejected() -> None:
    placed = {"name": "One", "maxReplicasPerNode": 1, "placementGroup": {"bundles": [{"cpu": "1"}]}}
    with pytest.raises(InvalidSpec, match="maxReplicasPerNode conflicts with placementGroup"):
        application(deployments=[placed])


def test_replica_limit_restarts_replicas_and_log_level_does_not() -> None:
    def restarting(**settings: Any) -> Any:
        return configuration(application(deployments=[{"name": "One", **settings}]))

    assert restarting(maxReplicasPerNode=1) != restarting()
    assert restarting(logging={"level": "DEBUG"}) == restarting()


def grouped(most: int, replicas: int, pods: int) -> ServeApplication:
    """Return an application with this number of replicas, and of pods in an explicit worker group."""
    group = {"name": "models", "cpu": "8", "memory": "16Gi", "minPods": 1, "maxPods": pods}
    one = {"name": "One", "workerGroup": "models", "maxReplicasPerNode": most, "numReplicas": replicas}
    return application(deployments=[one], workerGroups=[group])


def test_replicas_beyond_capacity_of_pods_are_rejected() -> None:
    assert problems(grouped(2, 6, 3)) == ()
    [wrong] = problems(grouped(2, 7, 3))
    assert wrong == (
        "spec.deployments[One].maxReplicasPerNode: 7 replicas, 2 in one pod, need 4 pods, and worker group "
        "models has at most 3: raise its maxPods"
    )
