"""When the operator probes a model, and when an earlier answer expires: stories, step by step."""

from datetime import timedelta
from typing import Any

import pytest

from daybreak.api.common.conditions import ConditionType
from daybreak.kinds.llmservice.decide.model_checks import SETTLE
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    GPU_MODEL,
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


def test_new_service_becomes_ready_after_model_answers() -> None:
    """A service goes from no objects to an answer, in the steps that KubeRay and Ray Serve report."""
    world = World()
    assert "RayService is being created" in message(world.step())
    empty = ray_service(world.observed.manifest, status={})
    assert "KubeRay has not started" in message(world.step(ray_service=empty))
    starting = ray_service(world.observed.manifest, status=ray_status(pending="chat-aaaaa"))
    assert "its Ray cluster is starting" in message(world.step(ray_service=starting, pods=(HEAD,)))

    def pending(app: str, tiny: str) -> Manifest:
        status = ray_status(pending="chat-aaaaa", app=app, models={"tiny": tiny})
        return ray_service(world.observed.manifest, status=status)

    decision = world.step(ray_service=pending("DEPLOYING", "UPDATING"))
    assert "waits for a worker pod" in message(decision)
    assert decision.status.models[0].state == "Pending"
    decision = world.step(pods=(HEAD, pod(ready=False, placed=False)))
    assert conditions(decision)["Active"] == "False/Starting"
    assert message(decision, ConditionType.ACTIVE) == "the worker pods wait for a node"
    decision = world.step(pods=(HEAD, pod(ready=False)))
    assert "its worker pod is starting" in message(decision)
    assert decision.status.models[0].state == "Starting"
    assert conditions(decision)["Active"] == "True/Awake"
    assert "the engine is starting" in message(world.step(pods=(HEAD, WORKER)))
    decision = world.step(ray_service=pending("RUNNING", "HEALTHY"))
    assert decision.ask == ()
    assert conditions(decision)["Ready"] == "Unknown/Progressing"
    decision = world.step(ray_service=running(world, ready=False))
    assert decision.ask == ()
    assert conditions(decision)["Ready"] == "Unknown/Progressing"

    decision = world.step(ray_service=running(world))
    assert decision.ask == ("tiny",)
    assert decision.requeue_after == timedelta(seconds=2)
    assert conditions(decision)["Ready"] == "Unknown/Progressing"
    # Regardless of the time until here: routes follow a moment later.
    decision = world.step(after=600, answers={"tiny": "connection refused"})
    assert decision.requeue_after == timedelta(seconds=2)
    assert conditions(decision)["Ready"] == "False/ProbeFailed"
    assert message(decision) == "model tiny: connection refused"
    assert decision.ask == ("tiny",)
    # During the next probe the previous message stays.
    assert conditions(world.step())["Ready"] == "False/ProbeFailed"
    decision = world.step(answers={"tiny": True})
    assert conditions(decision) == {
        "Ready": "True/Serving",
        "Active": "True/Awake",
        "Schedulable": "True/NodesFit",
        "Reconciling": "False/Reconciled",
        "Stalled": "False/Reconciled",
    }
    assert message(decision) == "the model answers at http://chat.default.svc/v1"
    assert decision.ask == ()
    assert decision.requeue_after is None
    assert decision.status.phase == "Awake"
    assert decision.status.models[0].message is None
    again = world.step(after=3600)
    assert again.status == decision.status


def test_probe_interval_grows_while_model_does_not_answer() -> None:
    world = World()
    world.step()
    world.step(ray_service=running(world), pods=(HEAD, WORKER), answers={"tiny": "no"})
    pauses = [
        world.step(after=after, answers={"tiny": "no"}).requeue_after or timedelta()
        for after in (1, 60, 600, 6000)
    ]
    assert pauses == sorted(pauses)
    assert pauses[0] == timedelta(seconds=2)
    assert pauses[-1] == timedelta(minutes=2)


def test_service_stays_ready_when_replica_count_changes() -> None:
    world = World()
    started(world)
    world.edit(manifest(replicas=2))
    decision = world.step()  # the old RayService is still there
    assert conditions(decision)["Ready"] == "True/Serving"
    assert decision.ask == ()
    # Applied, not yet observed by KubeRay; then observed, with Serve's previous status; then Serve's new one.
    unseen = running(world)
    unseen["metadata"]["generation"] = 2
    assert unseen["spec"]["serveConfigV2"] != running(World())["spec"]["serveConfigV2"]
    decision = world.step(ray_service=unseen)
    assert conditions(decision)["Ready"] == "True/Serving"
    assert conditions(decision)["Reconciling"] == "True/Progressing"
    for app, tiny in (("RUNNING", "HEALTHY"), ("DEPLOYING", "UPDATING"), ("DEPLOYING", "UPSCALING")):
        decision = world.step(ray_service=running(world, app=app, models={"tiny": tiny}, generation=2))
        assert decision.ask == ()
        assert conditions(decision)["Ready"] == "True/Serving"
        assert conditions(decision)["Reconciling"].startswith("True")
        assert decision.status.models[0].state == "Ready"
    assert "1 of 2 replicas ready" in message(decision, ConditionType.RECONCILING)
    decision = world.step(ray_service=running(world, generation=2), pods=(HEAD, pod("w-tiny"), pod("w-2")))
    assert conditions(decision)["Reconciling"] == "False/Reconciled"
    assert decision.ask == ()
    assert decision.status.replicas == 2


def test_unschedulable_second_replica_is_reported() -> None:
    world = World()
    started(world)
    world.edit(manifest(replicas=2))
    lost = pod(
        "w-2", placed=False, status=unplaced("0/1 nodes are available: 1 Insufficient cpu. preemption: none")
    )
    decision = world.step(
        ray_service=running(world, app="DEPLOYING", models={"tiny": "UPDATING"}, generation=2),
        pods=(HEAD, pod("w-tiny"), lost),
    )
    assert conditions(decision)["Ready"] == "True/Serving"
    assert message(decision, ConditionType.RECONCILING) == (
        "model tiny: 1 of 2 replicas ready, a pod cannot be scheduled: "
        "0/1 nodes are available: 1 Insufficient cpu"
    )
    assert conditions(decision)["Stalled"] == "False/Reconciled"


def test_status_replicas_count_per_model_if_spec_sets_replicas() -> None:
    """`kubectl scale` compares spec and status: the spec counts per model, so the status does too."""
    world = World(manifest(CPU_MODEL, OTHER_MODEL))
    world.step(pods=(HEAD, pod("a"), pod("b"), pod("c", model="other")), ray_service=running(world))
    assert world.step().status.replicas == 3, "of all models together"
    world.edit(manifest(CPU_MODEL, OTHER_MODEL, replicas=2))
    assert world.step().status.replicas == 1, "of the model that has the fewest"


def test_answering_model_counts_a_replica_before_pod_is_ready() -> None:
    """The gateway probes the replica directly; the kubelet's probe of the pod follows some seconds later."""
    world = World()
    started(world)
    early = (HEAD, pod("w-tiny", ready=False), pod("w-2", ready=False))
    decision = world.step(pods=early)
    assert conditions(decision)["Ready"] == "True/Serving"
    assert (decision.status.replicas, decision.status.models[0].replicas) == (1, 1)
    nowhere = (HEAD, pod("w-tiny", ready=False, placed=False))
    assert world.step(pods=nowhere).status.replicas == 0, "what has no node answers nobody"


def test_replica_with_two_pods_counts_only_if_both_exist() -> None:
    world = World(manifest({**GPU_MODEL, "parallelism": {"pipeline": 2}}))
    both = (pod("w-1", model="qwen", ready=False), pod("w-2", model="qwen", ready=False))
    world.step(pods=(HEAD, *both), ray_service=running(world), answers={"qwen": True})
    assert world.step().status.replicas == 1
    assert world.step(pods=(HEAD, both[0])).status.replicas == 0


def test_answering_model_is_ready_while_serve_waits_for_another_model() -> None:
    """The other model may wait for the accelerators of this one, which can yield only while it is awake."""
    world = World(manifest(CPU_MODEL, OTHER_MODEL))
    world.step(pods=(HEAD, pod("a"), pod("b", model="other")), ray_service=running(world))
    world.step(answers={"tiny": True, "other": True})
    waits = running(world, app="DEPLOYING", models={"tiny": "HEALTHY", "other": "UPDATING"})
    decision = world.step(ray_service=waits, pods=(HEAD, pod("a"), unplaced_pod()))
    assert [model.state for model in decision.status.models] == ["Ready", "Starting"]
    assert decision.status.models[0].probed_configuration


def unplaced_pod() -> Manifest:
    """Return the pod of the other model, unscheduled."""
    words = unplaced("0/1 nodes are available: 1 Insufficient cpu. preemption: none")
    return pod("b", model="other", ready=False, placed=False, status=words)


def test_model_is_probed_again_after_configuration_change() -> None:
    world = World()
    started(world)
    asked_before = world.observed.manifest["status"]["models"][0]["probedConfiguration"]
    world.edit(manifest({**CPU_MODEL, "engine": {"args": {"max_num_seqs": 4}}}))
    unseen = running(world)
    unseen["metadata"]["generation"] = 2
    decision = world.step(after=60, ray_service=unseen)
    assert conditions(decision)["Ready"] == "Unknown/Updating"
    assert decision.status.phase == "Updating"
    assert decision.ask == ()

    # KubeRay has observed the change, but its copy of the Serve status may be older.
    seen_at = world.observed.now + timedelta(seconds=1)
    decision = world.step(ray_service=running(world, generation=2, updated=seen_at))
    assert decision.ask == ()
    assert decision.requeue_after == SETTLE
    decision = world.step(
        ray_service=running(
            world, generation=2, updated=seen_at, app="DEPLOYING", models={"tiny": "UPDATING"}
        )
    )
    assert decision.requeue_after is None
    assert conditions(decision)["Ready"] == "Unknown/Updating"
    assert decision.status.models[0].state == "Updating"
    decision = world.step(after=60, ray_service=running(world, generation=2, updated=seen_at))
    assert decision.ask == ("tiny",)
    decision = world.step(answers={"tiny": True})
    assert conditions(decision)["Ready"] == "True/Serving"
    assert decision.status.models[0].probed_configuration != asked_before


def test_answer_from_before_configuration_change_is_revoked() -> None:
    """With a slow KubeRay, the operator probed the model before the change was applied."""
    world = World()
    started(world)
    world.edit(manifest({**CPU_MODEL, "engine": {"args": {"max_num_seqs": 4}}}))
    decision = world.step(after=60, ray_service=running(world, generation=2), answers={"tiny": True})
    assert conditions(decision)["Ready"] == "True/Serving"
    decision = world.step(
        ray_service=running(world, generation=2, app="DEPLOYING", models={"tiny": "UPDATING"})
    )
    assert conditions(decision)["Ready"] != "True/Serving"
    decision = world.step(ray_service=running(world, generation=2))
    assert decision.ask == ("tiny",)


def test_service_stays_ready_until_second_cluster_becomes_active() -> None:
    world = World()
    started(world)
    world.edit(manifest(runtime={"image": "ray:2"}))
    side_by_side = ray_status(
        active="chat-aaaaa", pending="chat-bbbbb", ready=True, app="DEPLOYING", models={"tiny": "UPDATING"}
    )
    decision = world.step(
        ray_service=ray_service(
            manifest(runtime={"image": "ray:2"}),
            generation=2,
            status=side_by_side | {"observedGeneration": 2},
        ),
        pods=(HEAD, pod("w-tiny"), pod("h-2", model=None, cluster="chat-bbbbb", ready=False)),
    )
    assert conditions(decision)["Ready"] == "True/Serving"
    assert conditions(decision)["Reconciling"] == "True/Updating"
    assert "chat-bbbbb, is starting alongside chat-aaaaa" in message(decision, ConditionType.RECONCILING)
    assert decision.status.phase == "Updating"
    assert decision.ask == ()

    # The status shows the problem of the new cluster, and the old cluster continues to serve.
    broken = pod(
        "h-2", model=None, cluster="chat-bbbbb", status=waiting("ImagePullBackOff", "x", image="ray:2")
    )
    decision = world.step(pods=(HEAD, pod("w-tiny"), broken))
    assert conditions(decision)["Ready"] == "True/Serving"
    assert conditions(decision)["Stalled"] == "True/ImagePullFailed"
    assert message(decision, ConditionType.STALLED) == "head: image ray:2 cannot be pulled: x"

    both = tuple(
        pod(name, cluster="chat-bbbbb", model=model) for name, model in (("h-2", None), ("w-2", "tiny"))
    )
    switched = running(world, active="chat-bbbbb", generation=2, updated=world.observed.now)
    decision = world.step(ray_service=switched, pods=(HEAD, pod("w-tiny"), *both))
    assert conditions(decision)["Ready"] == "Unknown/Updating"
    assert decision.ask == ("tiny",)

    # The next update begins before the new cluster has answered: its health is unknown.
    third = ray_status(active="chat-bbbbb", pending="chat-ccccc", ready=True, generation=2)
    decision = world.step(ray_service=switched | {"status": third})
    assert conditions(decision)["Ready"] == "Unknown/Updating"

    decision = world.step(ray_service=switched, answers={"tiny": True})
    assert conditions(decision)["Ready"] == "True/Serving"
    assert decision.status.replicas == 1


def test_zero_min_replicas_means_one_without_gateway() -> None:
    world = World(manifest({**CPU_MODEL, "replicas": {"min": 0, "initial": 0}}))
    started(world)
    decision = world.step()
    assert (decision.status.phase, decision.status.models[0].state) == ("Awake", "Ready")
    assert "replicas.min: 0 means 1" in message(decision, ConditionType.ACTIVE)


def test_service_scales_to_zero_and_back_without_gateway() -> None:
    """Without a gateway no request can wake the service: it stays down until a user scales it up."""
    world = World()
    started(world)
    world.edit(manifest(replicas=0))
    decision = world.step(
        ray_service=running(world, generation=2, models={"tiny": "DOWNSCALING"}, app="DEPLOYING")
    )
    assert conditions(decision)["Ready"] == "False/Asleep"
    assert conditions(decision)["Reconciling"] == "False/Reconciled"
    decision = world.step(ray_service=running(world, generation=2), pods=(HEAD,))
    assert (decision.status.phase, decision.status.models[0].state) == ("Asleep", "Asleep")
    world.edit(manifest(replicas=1))
    deploying = running(world, generation=3, app="DEPLOYING", models={"tiny": "UPDATING"})
    decision = world.step(ray_service=deploying, pods=(HEAD,))
    assert conditions(decision)["Reconciling"] == "True/Progressing"
    assert world.step(ray_service=running(world, generation=3), pods=(HEAD, WORKER)).ask == ("tiny",)
    decision = world.step(answers={"tiny": True})
    assert conditions(decision)["Ready"] == "True/Serving"


@pytest.mark.parametrize(
    "lost",
    [
        {"ready": False, "reason": "ZeroServeEndpoints", "report": "Number of serve endpoints dropped to 0"},
        {"app": None},
        {
            "app": "UNHEALTHY",
            "message": "The deployments ['LLMServer:tiny'] are UNHEALTHY.",
            "models": {"tiny": "UNHEALTHY"},
        },
        {"app": "RUNNING", "models": {}},
        {"active": "chat-bbbbb", "ready": False},
    ],
    ids=["no endpoints", "no word of Serve", "unhealthy", "deployment gone", "another cluster"],
)
def test_lost_model_is_probed_again_after_its_return(lost: dict[str, Any]) -> None:
    world = World()
    started(world)
    decision = world.step(ray_service=running(world, **lost))
    assert not conditions(decision)["Ready"].startswith("True")
    assert decision.ask == ()
    assert conditions(decision)["Stalled"] == "False/Reconciled"
    decision = world.step(after=60, ray_service=running(world))
    assert decision.ask == ("tiny",)
    assert conditions(decision)["Ready"] == "Unknown/Progressing"
    assert conditions(world.step(answers={"tiny": True}))["Ready"] == "True/Serving"


def test_service_is_not_ready_while_ray_service_is_being_deleted() -> None:
    world = World()
    started(world)
    leaving = running(world)
    leaving["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    decision = world.step(ray_service=leaving)
    assert conditions(decision)["Ready"] == "False/ProbeFailed"
    assert "is recreated" in str(decision.status.models[0].message)
