"""Blocking problems of models, images, crashes and KubeRay: each is reported once, while it lasts."""

import pytest

from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    HEAD,
    OTHER_MODEL,
    WORKER,
    Manifest,
    World,
    conditions,
    manifest,
    message,
    pod,
    ray_service,
    ray_status,
    running,
    started,
    unplaced,
    waiting,
)

ENGINE_ERROR = "OSError: /models/tiny is not a local folder and is not a valid model identifier"
FAILED = (
    "DEPLOY_FAILED",
    "The deployment failed to start 3 times in a row. This may be due to a problem with its constructor or "
    "initial health check failing. See controller logs for details. Error:\n"
    "ray::ServeReplica (pid=7, ip=10.0.0.1)\n"
    f'  File "x.py", line 1, in y\n{ENGINE_ERROR}',
)


def test_status_names_the_failed_model_of_two() -> None:
    world = World(manifest(CPU_MODEL, OTHER_MODEL))
    world.step()
    status = ray_status(
        pending="chat-aaaaa",
        app="DEPLOY_FAILED",
        message="Failed to update the deployments ['LLMServer:tiny'].",
        models={"tiny": FAILED, "other": "HEALTHY"},
    )
    llm = {key: value for key, value in world.observed.manifest.items() if key != "status"}
    decision = world.step(
        ray_service=ray_service(llm, status=status), pods=(HEAD, WORKER, pod("w-2", model="other"))
    )
    assert conditions(decision)["Ready"] == "False/ModelFailed"
    assert conditions(decision)["Stalled"] == "True/ModelFailed"
    assert decision.status.phase == "Failed"
    assert message(decision) == f"model tiny: {ENGINE_ERROR}"
    tiny, other = decision.status.models
    assert (tiny.state, tiny.message) == ("Failed", ENGINE_ERROR)
    assert (other.state, other.message) == ("Starting", "it runs, and waits for the rest of the service")


def test_ready_model_stays_ready_and_is_probed_if_other_model_fails() -> None:
    world = World(manifest(CPU_MODEL, OTHER_MODEL))
    started(world)
    broken = running(
        world,
        app="DEPLOY_FAILED",
        message="Failed to update the deployments ['LLMServer:tiny'].",
        models={"tiny": FAILED, "other": "HEALTHY"},
    )
    decision = world.step(ray_service=broken)
    assert [model.state for model in decision.status.models] == ["Failed", "Ready"]
    assert message(decision) == f"model tiny: {ENGINE_ERROR}"
    # After a change the operator probes the other model, regardless of the failed one.
    world.edit(manifest(CPU_MODEL, {**OTHER_MODEL, "engine": {"args": {"max_num_seqs": 4}}}))
    changed = running(
        world,
        app="DEPLOY_FAILED",
        message="Failed to update the deployments ['LLMServer:tiny'].",
        models={"tiny": FAILED, "other": "HEALTHY"},
        generation=2,
    )
    assert world.step(after=60, ray_service=changed).ask == ("other",)


def test_an_application_that_cannot_be_built_fails_every_model() -> None:
    world = World(manifest(CPU_MODEL, OTHER_MODEL))
    started(world)
    world.edit(manifest(CPU_MODEL, {**OTHER_MODEL, "engine": {"args": {"max_num_seqs": 4}}}))
    report = (
        "Deploying app 'llm' failed with exception:\nTraceback (most recent call last):\n"
        '  File "build.py", line 1, in build\nValueError: max_num_seqs must be larger'
    )
    decision = world.step(
        after=60, ray_service=running(world, app="DEPLOY_FAILED", message=report, generation=2)
    )
    assert decision.ask == ()
    assert conditions(decision)["Stalled"] == "True/ModelFailed"
    assert message(decision) == "ValueError: max_num_seqs must be larger"
    assert [model.state for model in decision.status.models] == ["Failed", "Failed"]


def test_service_is_not_stalled_while_ray_serve_retries() -> None:
    world = World()
    world.step()
    retrying = (
        "UPDATING",
        f"A replica failed to start with exception. Retrying 2 more time(s). Error:\n{ENGINE_ERROR}",
    )
    status = ray_status(pending="chat-aaaaa", app="DEPLOYING", models={"tiny": retrying})
    decision = world.step(ray_service=ray_service(manifest(), status=status), pods=(HEAD, WORKER))
    assert conditions(decision)["Ready"] == "False/ModelFailed"
    assert conditions(decision)["Stalled"] == "False/Reconciled"
    assert conditions(decision)["Reconciling"] == "True/Progressing"
    assert message(decision) == f"model tiny: {ENGINE_ERROR} (Ray Serve tries again)"


def test_engine_error_is_kept_while_ray_serve_retries() -> None:
    world = World()
    world.step()
    slow = "Deployment 'LLMServer:tiny' has 1 replicas that have taken more than 30s to initialize."

    def saying(*, status: str = "UPDATING", message: str = "") -> Manifest:
        observed = ray_status(pending="chat-aaaaa", app="DEPLOYING", models={"tiny": (status, message)})
        return ray_service(manifest(), status=observed)

    failed = f"A replica failed to start with exception. Retrying 2 more time(s). Error:\n{ENGINE_ERROR}"
    first = world.step(ray_service=saying(message=failed), pods=(HEAD, WORKER))
    for report in ("", slow):
        assert world.step(ray_service=saying(message=report)).status == first.status
    assert message(world.step(ray_service=saying(status="HEALTHY"))) != message(first)

    again = world.step(ray_service=saying(message=failed))
    assert message(again) == message(first)
    world.edit(manifest({**CPU_MODEL, "source": "file:///models/better"}))
    assert ENGINE_ERROR not in message(world.step(ray_service=saying()))


def test_image_pull_failure_is_reported_unchanged_during_back_off() -> None:
    """The kubelet alternates between pulling and backing off, but the reported problem stays the same."""
    world = World()
    world.step()
    llm = ray_service(manifest(), status=ray_status(pending="chat-aaaaa"))

    def head(reason: str, message: str) -> Manifest:
        return pod("h", model=None, status=waiting(reason, message, image="nope:1", container="ray-head"))

    why = "failed to resolve image: nope:1: not found"
    decision = world.step(ray_service=llm, pods=(head("ErrImagePull", why),))
    assert conditions(decision)["Ready"] == "False/ImagePullFailed"
    assert conditions(decision)["Stalled"] == "False/Reconciled"
    first = world.step(
        pods=(head("ImagePullBackOff", f'Back-off pulling image "nope:1": ErrImagePull: {why}'),)
    )
    assert conditions(first)["Stalled"] == "True/ImagePullFailed"
    assert message(first) == f"head: image nope:1 cannot be pulled: {why}"
    for reason, report in (
        ("ErrImagePull", why),
        ("ImagePullBackOff", f'Back-off pulling image "nope:1": ErrImagePull: {why}'),
    ):
        assert world.step(pods=(head(reason, report),)).status == first.status
    decision = world.step(pods=(pod("h", model=None, ready=False),))
    assert conditions(decision)["Stalled"] == "False/Reconciled"


def ended(code: int, reason: str = "Error", *, container: str = "ray-head") -> Manifest:
    state = {"terminated": {"exitCode": code, "reason": reason}}
    return {"phase": "Failed", "containerStatuses": [{"name": container, "state": state}]}


def test_head_crash_is_reported_until_a_head_is_ready() -> None:
    """KubeRay replaces a head that has ended, so its end is visible only for a moment."""
    world = World()
    world.step()
    llm = ray_service(manifest(), status=ray_status(pending="chat-aaaaa"))
    decision = world.step(ray_service=llm, pods=(pod("h", model=None, ready=False, status=ended(127)),))
    assert message(decision) == "head: container ray-head ended with exit code 127"
    assert conditions(decision)["Stalled"] == "True/ContainerCrashing"
    for pods in ((), (pod("h2", model=None, ready=False),)):
        assert world.step(pods=pods).status.conditions == decision.status.conditions
    decision = world.step(pods=(pod("h2", model=None),))
    assert conditions(decision)["Stalled"] == "False/Reconciled"
    assert conditions(decision)["Ready"] == "Unknown/Progressing"


def test_crash_is_no_longer_reported_after_spec_change() -> None:
    world = World()
    world.step()
    llm = ray_service(manifest(), status=ray_status(pending="chat-aaaaa"))
    world.step(ray_service=llm, pods=(pod("h", model=None, ready=False, status=ended(127)),))
    world.edit(manifest(runtime={"image": "better:1"}))
    decision = world.step(pods=(pod("h2", model=None, ready=False),))
    assert conditions(decision)["Stalled"] == "False/Reconciled"


def test_out_of_memory_worker_is_reported_until_a_worker_is_ready() -> None:
    world = World()
    started(world)
    killed = pod(ready=False, status=ended(137, "OOMKilled", container="ray-worker"))
    unhealthy = running(
        world,
        app="UNHEALTHY",
        message="The deployments ['LLMServer:tiny'] are UNHEALTHY.",
        models={"tiny": "UNHEALTHY"},
    )
    decision = world.step(ray_service=unhealthy, pods=(HEAD, killed))
    assert conditions(decision)["Stalled"] == "True/ContainerCrashing"
    assert "OOMKilled" in message(decision)
    decision = world.step(pods=(HEAD, pod("w-2", ready=False)))
    assert conditions(decision)["Stalled"] == "True/ContainerCrashing"
    decision = world.step(ray_service=running(world), pods=(HEAD, pod("w-2")))
    assert conditions(decision)["Stalled"] == "False/Reconciled"
    assert decision.ask == ("tiny",)


def test_service_is_not_stalled_if_worker_ends_with_its_head() -> None:
    world = World()
    started(world)
    decision = world.step(
        ray_service=running(world, ready=False, app=None),
        pods=(pod("h2", model=None, ready=False), pod(status=ended(1, container="ray-worker"))),
    )
    assert conditions(decision)["Stalled"] == "False/Reconciled"
    assert conditions(decision)["Ready"] == "False/ContainerCrashing"


def test_rejected_ray_service_stalls_until_corrected_spec_is_observed() -> None:
    world = World()
    world.step()
    invalid = ray_status(reason="ValidationFailed", report="RayService spec is odd", generation=0)
    decision = world.step(ray_service=ray_service(manifest(), status=invalid))
    assert conditions(decision)["Stalled"] == "True/ObjectRejected"
    assert message(decision) == "KubeRay rejects the RayService: RayService spec is odd"
    # The reason stays until endpoints appear, long after KubeRay has accepted a corrected spec.
    mended = ray_status(
        pending="chat-aaaaa", reason="ValidationFailed", report="RayService spec is odd", generation=2
    )
    decision = world.step(ray_service=ray_service(manifest(), generation=2, status=mended))
    assert conditions(decision)["Stalled"] == "False/Reconciled"


@pytest.mark.parametrize(
    ("report", "stalled"),
    [
        ('pods "chat-aaaaa-head" is forbidden: exceeded quota: cpu', True),
        ("context deadline exceeded", False),
    ],
)
def test_pod_creation_failure_is_reported_and_stalls_if_forbidden(report: str, stalled: bool) -> None:
    world = World()
    world.step()
    cluster = {
        "metadata": {"name": "chat-aaaaa"},
        "status": {
            "conditions": [
                {
                    "type": "ReplicaFailure",
                    "status": "True",
                    "reason": "FailedCreateHeadPod",
                    "message": report,
                }
            ]
        },
    }
    llm = ray_service(manifest(), status=ray_status(pending="chat-aaaaa"))
    decision = world.step(ray_service=llm, ray_clusters=(cluster,))
    assert message(decision) == f"KubeRay cannot create the pods: {report}"
    assert conditions(decision)["Stalled"].startswith(str(stalled))


def test_problem_that_needs_user_action_is_reported_first() -> None:
    world = World(manifest(CPU_MODEL, OTHER_MODEL))
    world.step()
    llm = ray_service(manifest(CPU_MODEL, OTHER_MODEL), status=ray_status(pending="chat-aaaaa"))
    pods = (
        HEAD,
        pod("w-1", placed=False, status=unplaced("no room")),
        pod("w-2", model="other", status=waiting("CreateContainerConfigError", 'secret "hub" not found')),
    )
    decision = world.step(ray_service=llm, pods=pods)
    assert conditions(decision)["Ready"] == "False/ContainerConfigFailed"
    assert message(decision) == (
        'model other: container ray-worker cannot be created: secret "hub" not found; '
        "model tiny: a pod cannot be scheduled: no room"
    )


def test_crashing_pod_but_not_unplaced_pod_outranks_failed_model() -> None:
    world = World()
    world.step()
    status = ray_status(pending="chat-aaaaa", app="DEPLOYING", models={"tiny": FAILED})
    killed = pod(ready=False, status=ended(137, "OOMKilled", container="ray-worker"))
    decision = world.step(ray_service=ray_service(manifest(), status=status), pods=(HEAD, killed))
    assert conditions(decision)["Stalled"] == "True/ContainerCrashing"
    # A pod that only waits for a node does not stall the service.
    waits = pod(placed=False, status=unplaced("no room"))
    decision = World().step(ray_service=ray_service(manifest(), status=status), pods=(HEAD, waits))
    assert conditions(decision)["Stalled"] == "True/ModelFailed"
