"""Problems of pods from the kubelet and the scheduler, as one sentence, and whether they need action."""

from typing import Any

import pytest

from daybreak.problems.pod_problems import pod_problem
from daybreak.problems.problem import Problem
from daybreak.ray.views.ray_pods import pod_views
from tests.unit.llmservice.decide.scenes.services import Manifest, pod, unplaced, waiting

REQUIREMENT = (
    "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please update your driver "
    "to a newer version, or use an earlier cuda container: unknown"
)
OLD_DRIVER = (
    "the NVIDIA driver of the node is too old: CUDA 13.0 of Daybreak's image needs 580.65.06 or newer. "
    "Install a newer driver, select other nodes in accelerator.nodeSelector, or set runtime.image to an "
    "image whose CUDA the driver supports"
)


def problem(status: Manifest, **fields: Any) -> Problem | None:
    return pod_problem(pod_views([pod(ready=False, status=status, **fields)])[0])


def terminated(code: int, reason: str = "Error", message: str = "", *, last: bool = False) -> Manifest:
    end = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}}
    container = {"name": "ray-worker", **({"state": waits, "lastState": end} if last else {"state": end})}
    return {"phase": "Running", "containerStatuses": [container]}


PULLED = 'failed to pull and unpack image "docker.io/library/nope:1": not found'


@pytest.mark.parametrize(
    ("status", "reason", "stalled", "message"),
    [
        (
            waiting("ErrImagePull", PULLED, image="nope:1"),
            "ImagePullFailed",
            False,
            f"image nope:1 cannot be pulled: {PULLED}",
        ),
        (
            waiting(
                "ImagePullBackOff", f'Back-off pulling image "nope:1": ErrImagePull: {PULLED}', image="nope:1"
            ),
            "ImagePullFailed",
            True,
            f"image nope:1 cannot be pulled: {PULLED}",
        ),
        (
            waiting("ImagePullBackOff", 'Back-off pulling image "nope:1"', image="nope:1"),
            "ImagePullFailed",
            True,
            "image nope:1 cannot be pulled: ImagePullBackOff",
        ),
        (
            waiting("InvalidImageName", 'couldn\'t parse image name "A B"', image="A B"),
            "ImagePullFailed",
            True,
            'image A B cannot be pulled: couldn\'t parse image name "A B"',
        ),
        (
            waiting("CreateContainerConfigError", 'secret "hub" not found'),
            "ContainerConfigFailed",
            True,
            'container ray-worker cannot be created: secret "hub" not found',
        ),
        (
            waiting("CreateContainerConfigError", "couldn't find key token in Secret default/hub"),
            "ContainerConfigFailed",
            True,
            "container ray-worker cannot be created: couldn't find key token in Secret default/hub",
        ),
        (
            waiting("RunContainerError", 'exec: "ray": not found'),
            "ContainerCrashing",
            True,
            'container ray-worker does not start: exec: "ray": not found',
        ),
        (
            waiting("RunContainerError", f"OCI runtime create failed: {REQUIREMENT}"),
            "ContainerCrashing",
            True,
            f"container ray-worker does not start: {OLD_DRIVER}",
        ),
        (
            terminated(128, "StartError", REQUIREMENT),
            "ContainerCrashing",
            True,
            f"container ray-worker ended with exit code 128 (StartError): {OLD_DRIVER}",
        ),
        (terminated(1, last=True), "ContainerCrashing", True, "container ray-worker ended with exit code 1"),
        (
            terminated(137, "OOMKilled", last=True),
            "ContainerCrashing",
            True,
            "container ray-worker exceeded its memory limit and was killed (OOMKilled): raise the limit",
        ),
        (
            terminated(128, "StartError", "no such file"),
            "ContainerCrashing",
            False,
            "container ray-worker ended with exit code 128 (StartError): no such file",
        ),
        (terminated(137), "ContainerCrashing", False, "container ray-worker ended with exit code 137"),
        (
            unplaced("0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes: 3 x."),
            "Unschedulable",
            False,
            "a pod cannot be scheduled: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu",
        ),
        (
            unplaced('0/1 nodes are available: persistentvolumeclaim "weights" not found. preemption: none'),
            "Unschedulable",
            True,
            'a pod cannot be scheduled: 0/1 nodes are available: persistentvolumeclaim "weights" not found',
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."},
            "ContainerCrashing",
            False,
            "a pod was evicted or failed (Evicted): The node was low on resource: memory.",
        ),
        (
            {
                "phase": "Failed",
                "reason": "Evicted",
                "message": 'Usage of EmptyDir volume "daybreak-shm" exceeds the limit "1Gi".',
            },
            "ContainerCrashing",
            True,
            'a pod was evicted or failed (Evicted): Usage of EmptyDir volume "daybreak-shm" '
            'exceeds the limit "1Gi".',
        ),
    ],
)
def test_pod_status_yields_reason_stalled_flag_and_message(
    status: Manifest, reason: str, stalled: bool, message: str
) -> None:
    found = problem(status)
    assert found is not None
    assert (found.reason, found.stalled, found.message) == (reason, stalled, message)


def test_problem_of_init_container_is_reported_while_pod_initializes() -> None:
    status = waiting("PodInitializing")
    status["initContainerStatuses"] = waiting("ImagePullBackOff", image="init:1")["containerStatuses"]
    found = problem(status)
    assert found is not None
    assert "init:1" in found.message


@pytest.mark.parametrize(
    "status",
    [
        waiting("ContainerCreating"),
        waiting("PodInitializing"),
        {"phase": "Running", "containerStatuses": [{"name": "ray-worker", "state": {"running": {}}}]},
        {
            "phase": "Running",
            "initContainerStatuses": [{"name": "wait", "state": {"terminated": {"exitCode": 0}}}],
        },
        {},
    ],
)
def test_starting_or_running_pod_has_no_problem(status: Manifest) -> None:
    assert problem(status) is None


def test_pod_being_deleted_has_no_problem() -> None:
    assert problem(waiting("ImagePullBackOff"), leaving=True) is None


def test_head_problem_is_stalled_if_its_container_terminates() -> None:
    found = problem(terminated(1), model=None)
    assert found is not None
    assert found.stalled
