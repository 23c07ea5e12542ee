"""LLMs in an application: the Serve configuration, their pods, and rejected settings."""

from typing import Any

import pytest
import yaml

from daybreak.api.common import names
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.serveapplication.validation import problems
from daybreak.kinds.serveapplication.decide.cluster_bounds import cluster_bounds
from daybreak.kinds.serveapplication.functions import view_of
from daybreak.kinds.serveapplication.objects.desired import desired
from daybreak.kinds.serveapplication.objects.marks import Marks
from daybreak.kinds.serveapplication.objects.ray_service import ray_service
from daybreak.kinds.serveapplication.objects.serve_config import serve_config
from daybreak.kinds.serveapplication.observe.fit import crowded, misfits
from daybreak.scheduling.nodes import Node
from daybreak.scheduling.replica_size import accelerators_awake
from tests.unit.serveapplication.applications import ASKED, PLATFORM, application, live, observe

CPU: dict[str, Any] = {
    "name": "tiny",
    "source": "file:///models/tiny",
    "engine": {"args": {"max_model_len": 1024}},
    "accelerator": {"kind": "cpu"},
    "resources": {"cpu": "1", "memory": "4Gi"},
    "replicas": {"min": 1, "max": 3},
}
GPU: dict[str, Any] = {"name": "qwen3-8b", "source": "hf://Qwen/Qwen3-8B", "parallelism": {"tensor": 2}}


def serve(*llms: dict[str, Any], away: bool = False, **spec: Any) -> dict[str, Any]:
    """Return the application in the Serve configuration."""
    [found] = yaml.safe_load(serve_config(application(llms=llms, **spec), away=away))["applications"]
    return dict(found)


def groups(*llms: dict[str, Any], away: bool = False, **spec: Any) -> dict[str, dict[str, Any]]:
    """Return the worker groups by name."""
    found = ray_service(application(llms=llms, **spec), PLATFORM, away=away)
    cluster = found["spec"]["rayClusterConfig"]
    return {each["groupName"]: each for each in cluster["workerGroupSpecs"]}


def test_serve_config_builds_llms_and_passes_on_user_function() -> None:
    found = serve(CPU, args={"good": ["fine"]})
    assert found["import_path"] == "daybreak_runtime.models.with_llms:build"
    reported = found["args"]
    assert (reported["importPath"], reported["args"]) == ("pipeline:build", {"good": ["fine"]})
    [config] = reported["llms"]
    assert config["model_loading_config"] == {"model_id": "tiny", "model_source": "/models/tiny"}
    assert config["engine_kwargs"]["max_model_len"] == 1024
    assert "server_cls" not in config, "it listens to handles alone"
    [one] = [each for each in found["deployments"] if each["name"] == names.serve_deployment("tiny")]
    scaling = one["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"]) == (1, 3)


def test_empty_llms_leave_application_unchanged() -> None:
    assert serve()["import_path"] == "pipeline:build"
    assert Marks.desired(application(), "") == Marks.desired(application(llms=[]), "")


def test_llms_have_separate_worker_groups_with_application_code() -> None:
    code = {"configMap": "pipeline-code"}
    found = groups(CPU, GPU, code=code)
    assert list(found) == ["cpu", "tiny", "qwen3-8b"]
    assert (found["tiny"]["minReplicas"], found["tiny"]["maxReplicas"]) == (1, 3)
    pod = found["qwen3-8b"]["template"]["spec"]
    container = pod["containers"][0]
    assert container["resources"]["requests"]["nvidia.com/gpu"] == "2"
    assert "/code" in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert {"name": "PYTHONPATH", "value": "/code"} in container["env"]
    assert "DAYBREAK_HTTP_PORT" not in [each["name"] for each in container["env"]]
    assert found["qwen3-8b"]["resources"][names.model_resource("qwen3-8b")] == "2"
    assert {container["image"]} == {PLATFORM.ray_image}, "one image for all of its pods"


def test_llms_have_no_minimum_pods_while_workers_sleep() -> None:
    there, gone = serve(CPU), serve(CPU, away=True)
    for each in (there, gone):
        for deployment in each["deployments"]:
            deployment.pop("autoscaling_config")
    assert there == gone
    assert (groups(CPU, away=True)["tiny"]["minReplicas"], groups(CPU, away=True)["tiny"]["replicas"]) == (
        0,
        0,
    )
    one = application(llms=[CPU])
    budgets = []
    for depth in (None, SleepDepth.WORKERS):
        objects = {each["kind"]: each for each in desired(one, PLATFORM, 1, asleep=depth)}
        budgets.append(objects["PodDisruptionBudget"]["spec"]["minAvailable"])
    assert budgets == [2, 0]


def test_bounds_of_llm_groups_apply_to_running_ray_cluster() -> None:
    one = application(llms=[CPU])
    found = observe({"probedConfiguration": "pipeline-abcde"}, live(one), traffic=ASKED, spec={"llms": [CPU]})
    bounds = cluster_bounds(view_of(found))
    assert bounds == {"pipeline-abcde": {"cpu": (1, 2), "tiny": (1, 3)}}


@pytest.mark.parametrize(
    ("change", "pods", "restarts"),
    [
        ({"replicas": {"min": 2, "max": 3}}, False, False),
        ({"serve": {"maxOngoingRequests": 8}}, False, False),
        ({"engine": {"args": {"max_model_len": 2048}}}, False, True),
        ({"resources": {"cpu": "2", "memory": "4Gi"}}, True, True),
        ({"source": "pvc://weights/tiny"}, True, True),
    ],
)
def test_engine_change_restarts_replicas_and_pod_change_needs_new_pods(
    change: dict[str, Any], pods: bool, restarts: bool
) -> None:
    before, after = (Marks.desired(application(llms=[each]), "") for each in (CPU, CPU | change))
    found = before.to(after)
    assert (found.pods, found.restarts) == (pods, restarts)


def node(gpus: int) -> Node:
    """Return a node with this number of GPUs."""
    return Node("one", {}, (), {"cpu": "32", "memory": "200Gi", "nvidia.com/gpu": str(gpus)})


def test_fit_and_capacity_checks_include_llms() -> None:
    one = application(llms=[GPU])
    [wrong] = misfits(one, (node(1),))
    assert wrong.model == "qwen3-8b"
    assert "needs 2 nvidia.com/gpu" in wrong.message
    assert not misfits(one, (node(2),))
    assert "model qwen3-8b needs 2 nvidia.com/gpu" in crowded(one, (node(1),), {})
    assert sum(accelerators_awake(one.workload, model) for model in one.workload.models) == 2


@pytest.mark.parametrize(
    ("llms", "spec", "words"),
    [
        ([CPU, CPU], {}, "spec.llms: tiny occurs 2 times"),
        ([CPU | {"name": "cpu"}], {}, "spec.llms[0].name: worker group cpu has that name"),
        (
            [CPU | {"engine": {"args": {"max_model_length": 1}}}],
            {},
            "spec.llms[0].engine.args.max_model_length",
        ),
        ([GPU | {"cache": {"size": "20Gi"}}], {}, "spec.llms[0].cache: LLMs of an application have none"),
        ([CPU | {"lora": {"maxRank": 16}}], {}, "spec.llms[0].lora: LLMs of an application have none"),
        ([CPU], {"args": {"models": {}}}, "spec.args.models: the handles of spec.llms come there"),
        (
            [CPU],
            {"deployments": [{"name": "LLMServer:tiny"}]},
            "spec.deployments[LLMServer:tiny]: that is the deployment of an LLM",
        ),
        (
            [CPU | {"resources": {"memory": "500m"}}],
            {},
            "llms[0].resources.memory: 500m is less than",
        ),
    ],
)
def test_invalid_llm_settings_are_rejected(
    llms: list[dict[str, Any]], spec: dict[str, Any], words: str
) -> None:
    assert words in "; ".join(problems(application(llms=llms, **spec)))


def test_valid_llms_are_accepted() -> None:
    assert problems(application(llms=[CPU, GPU])) == ()
