"""Objects of a ServeApplication: the Serve configuration, pods, and the location of its code."""

from typing import Any

import pytest
import yaml

from daybreak.api.gates.sleep import SleepDepth
from daybreak.kinds.serveapplication.objects.desired import desired
from daybreak.kinds.serveapplication.objects.marks import Marks
from daybreak.kinds.serveapplication.objects.ray_service import ray_service
from daybreak.kinds.serveapplication.objects.serve_config import serve_config
from tests.unit.serveapplication.applications import PLATFORM, application


def serve(**spec: Any) -> dict[str, Any]:
    """Return the only application in the Serve configuration."""
    [found] = yaml.safe_load(serve_config(application(**spec)))["applications"]
    return dict(found)


def containers(**spec: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the pod and the Ray container of the head and of each group."""
    cluster = ray_service(application(**spec), PLATFORM)["spec"]["rayClusterConfig"]
    templates = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    pods = [each["template"]["spec"] for each in templates]
    return [(pod, pod["containers"][0]) for pod in pods]


def test_deployment_settings_are_passed_to_serve() -> None:
    [found] = serve(
        deployments=[
            {
                "name": "A",
                "autoscaling": {"maxReplicas": 3, "targetOngoingRequests": 4, "upscaleDelay": "500ms"},
                "maxOngoingRequests": 7,
                "maxQueuedRequests": 9,
                "gracefulShutdownTimeout": "1m",
                "cpu": "250m",
                "memory": "1Gi",
                "accelerators": 0.5,
                "userConfig": {"threshold": 0.5},
            }
        ]
    )["deployments"]
    scaling = found.pop("autoscaling_config")
    assert (scaling["min_replicas"], scaling["max_replicas"], scaling["upscale_delay_s"]) == (1, 3, 0.5)
    actor = found.pop("ray_actor_options")
    assert (actor["num_cpus"], actor["num_gpus"], actor["memory"]) == (0.25, 0.5, 2**30)
    assert found == {
        "name": "A",
        "max_ongoing_requests": 7,
        "max_queued_requests": 9,
        "health_check_period_s": 10,
        "health_check_timeout_s": 30,
        "graceful_shutdown_wait_loop_s": 2,
        "graceful_shutdown_timeout_s": 60,
        "user_config": {"threshold": 0.5},
    }


def test_replicas_are_bound_to_the_pods_of_their_group() -> None:
    spec = {"deployments": [{"name": "A"}, {"name": "B", "accelerators": 1}]}
    cluster = ray_service(application(**spec), PLATFORM)["spec"]["rayClusterConfig"]
    offered = [set(group["resources"]) - {"CPU", "GPU"} for group in cluster["workerGroupSpecs"]]
    expected = [set(each["ray_actor_options"]["resources"]) for each in serve(**spec)["deployments"]]
    assert offered == expected
    assert not expected[0] & expected[1]


def test_placement_group_is_bound_to_pods_of_its_worker_group() -> None:
    group = {"bundles": [{"cpu": "1", "accelerators": 0.5}, {"cpu": "2"}], "strategy": "STRICT_PACK"}
    [found] = serve(deployments=[{"name": "A", "placementGroup": group}])["deployments"]
    own = found["ray_actor_options"]["resources"]
    assert found["placement_group_bundles"] == [{"CPU": 1, **own, "GPU": 0.5}, {"CPU": 2, **own}]
    assert found["placement_group_strategy"] == "STRICT_PACK"


@pytest.mark.parametrize(
    ("code", "volume"),
    [
        ({"configMap": "c"}, {"configMap": {"name": "c"}}),
        (
            {"workingDir": "pvc://claim/a/b"},
            {"persistentVolumeClaim": {"claimName": "claim", "readOnly": True}},
        ),
        (
            {"workingDir": "image://registry/code:1"},
            {"image": {"reference": "registry/code:1", "pullPolicy": "IfNotPresent"}},
        ),
    ],
)
def test_code_volume_is_mounted_on_python_path(code: dict[str, str], volume: dict[str, Any]) -> None:
    for pod, ray in containers(code=code):
        [found] = [each for each in pod["volumes"] if each["name"] == "daybreak-code"]
        assert found == {"name": "daybreak-code", **volume}
        [mount] = [each for each in ray["volumeMounts"] if each["name"] == "daybreak-code"]
        assert mount["readOnly"]
        assert mount.get("subPath") == ("a/b" if "pvc" in str(code) else None)
        assert {"name": "PYTHONPATH", "value": mount["mountPath"]} in ray["env"]


def test_zip_url_is_passed_to_ray_as_working_dir() -> None:
    found = serve(code={"workingDir": "s3://bucket/code.zip"})
    assert found["runtime_env"] == {"working_dir": "s3://bucket/code.zip"}
    for pod, ray in containers(code={"workingDir": "s3://bucket/code.zip"}):
        assert "daybreak-code" not in str(pod)
        assert "PYTHONPATH" not in [each["name"] for each in ray["env"]]


def test_ray_image_matches_accelerator_use_unless_specified() -> None:
    assert {ray["image"] for _, ray in containers()} == {PLATFORM.ray_cpu_image}
    on_gpus = containers(deployments=[{"name": "A"}, {"name": "B", "accelerators": 0.5}])
    assert {ray["image"] for _, ray in on_gpus} == {PLATFORM.ray_image}
    assert {ray["image"] for _, ray in containers(runtime={"image": "own:1"})} == {"own:1"}


def test_gpu_image_hides_devices_from_pods_that_request_none() -> None:
    """All pods have one image, which requests every device if NVIDIA's runtime is the nodes' default."""
    void = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}

    def blind(*deployments: dict[str, Any], **spec: Any) -> list[bool]:
        return [void in ray["env"] for _, ray in containers(deployments=list(deployments), **spec)]

    assert blind({"name": "A"}, {"name": "B", "accelerators": 0.5}) == [True, True, False]
    assert not any(blind({"name": "A"}))
    on_cpu = {"name": "tiny", "source": "file:///models/tiny", "accelerator": {"kind": "cpu"}}
    mixed = blind({"name": "B", "accelerators": 0.5}, llms=[on_cpu])
    assert sorted(mixed) == [False, True, True], "head, group and LLM"


def test_sleeping_application_has_no_ray_service() -> None:
    awake = desired(application(), PLATFORM, 20000)
    asleep = desired(application(), PLATFORM, 20000, asleep=SleepDepth.CLUSTER)
    assert [each for each in awake if each["kind"] != "RayService"] == asleep, "nothing else is written"
    assert len(asleep) == len(awake) - 1


def test_pod_mark_changes_only_with_settings_that_need_new_pods() -> None:
    def wishes(**spec: Any) -> str:
        return Marks.desired(application(**spec), "").pods

    before = wishes()
    same: dict[str, Any] = {"sleep": None, "args": {"a": 1}, "importPath": "other:build", "access": {}}
    for name, value in same.items():
        assert wishes(**{name: value}) == before
    others: dict[str, Any] = {"runtime": {"image": "i:1"}, "code": {"configMap": "c"}}
    for name, value in others.items():
        assert wishes(**{name: value}) != before
