"""Decisions about a service: blocked specs, and the complete status."""

from typing import Any

import pytest

from daybreak.api.common.conditions import ConditionType
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    GPU_MODEL,
    HEAD,
    WORKER,
    Manifest,
    World,
    conditions,
    manifest,
    message,
    node,
    pod,
    ray_service,
    ray_status,
    running,
    started,
    unplaced,
)


def test_new_service_is_waking_and_ready_is_unknown() -> None:
    decision = World().step()
    assert decision.apply
    assert decision.ask == ()
    assert decision.requeue_after is None
    assert conditions(decision) == {
        "Ready": "Unknown/Progressing",
        "Active": "False/Starting",
        "Schedulable": "True/NodesFit",
        "Reconciling": "True/Progressing",
        "Stalled": "False/Reconciled",
    }
    status = decision.status
    assert (status.phase, status.replicas, status.accelerators) == ("Waking", 0, 0)
    assert status.url == "http://chat.default.svc/v1"
    assert (
        status.selector
        == "daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name=chat,ray.io/node-type=worker"
    )


@pytest.mark.parametrize(
    ("llm", "observed", "reason", "report"),
    [
        pytest.param(
            manifest({**CPU_MODEL, "engine": {"args": {"max_model_length": 1}}}),
            {},
            "InvalidSpec",
            "spec.models[0].engine.args.max_model_length: ",
            id="engine argument",
        ),
        pytest.param(
            manifest({**CPU_MODEL, "parallelism": {"tensor": 0}}),
            {},
            "InvalidSpec",
            "spec.models[0].parallelism.tensor: ",
            id="out of range",
        ),
        pytest.param(
            manifest(),
            {"kuberay_installed": False},
            "KubeRayNotInstalled",
            "the API server does not serve RayService (ray.io/v1): install KubeRay or its CRDs",
            id="no KubeRay",
        ),
        pytest.param(
            manifest(),
            {"foreign": ("Service/chat", "RayService/chat")},
            "NameConflict",
            "Service/chat, RayService/chat already exist in default and are not managed by Daybreak: delete "
            "them, or rename the LLMService",
            id="names taken",
        ),
        pytest.param(
            manifest(),
            {"refusal": "Service chat: exceeded quota"},
            "ObjectRejected",
            "the API server refused Service chat: exceeded quota",
            id="refused",
        ),
    ],
)
def test_blocked_spec_is_not_applied_and_stalls(
    llm: Manifest, observed: dict[str, Any], reason: str, report: str
) -> None:
    decision = World(llm).step(**observed)
    assert not decision.apply
    assert decision.ask == ()
    assert decision.requeue_after is None
    found = conditions(decision)
    assert found["Ready"] == f"False/{reason}"
    assert found["Stalled"] == f"True/{reason}"
    assert found["Reconciling"] == f"False/{reason}"
    assert found["Active"] == f"False/{reason}"
    assert decision.status.phase == "Failed"
    assert {model.message for model in decision.status.models} <= {
        "no Ray cluster is made for it: see Stalled"
    }
    assert message(decision).startswith(report)
    if reason == "InvalidSpec":
        assert found["Schedulable"] == "Unknown/InvalidSpec"
    if reason != "InvalidSpec":
        assert message(decision) == report


def test_spec_that_fits_on_no_node_is_applied_and_stalls_with_hint() -> None:
    llm = manifest({**GPU_MODEL, "parallelism": {"tensor": 8}})
    decision = World(llm).step(nodes=(node(gpus=4), node("node-b", gpus=4)))
    assert decision.apply
    found = conditions(decision)
    assert found["Ready"] == found["Schedulable"] == "False/NoNodeFits"
    assert found["Stalled"] == "True/NoNodeFits"
    assert found["Reconciling"] == "False/NoNodeFits"
    assert decision.status.phase == "Failed"
    assert message(decision) == (
        "model qwen: a replica needs 8 nvidia.com/gpu on one node; the largest node has 4 (node-a): use "
        "parallelism pipeline: 2 with tensor: 4; if nodes are added on demand, annotate the LLMService "
        "with daybreak.dev/fit-check=off"
    )


def test_invalid_edit_is_not_applied_and_keeps_probe_result() -> None:
    world = World()
    started(world)
    world.edit(manifest({**CPU_MODEL, "source": "ftp://nowhere"}))
    decision = world.step()
    assert not decision.apply
    assert decision.status.observed_generation == 2
    assert conditions(decision)["Ready"] == "False/InvalidSpec"
    assert [model.name for model in decision.status.models] == ["tiny"]
    answered = decision.status.models[0].probed_configuration
    world.edit(manifest())
    decision = world.step()
    assert conditions(decision)["Ready"] == "True/Serving"
    assert decision.status.models[0].probed_configuration == answered


def test_answer_without_probe_is_ignored() -> None:
    world = World(refusal="Service chat: no")
    decision = world.step(ray_service=running(world), pods=(HEAD, WORKER), answers={"tiny": True})
    assert decision.status.models[0].probed_configuration is None
    assert world.step(refusal="").ask == ("tiny",)


def test_invalid_spec_reports_that_applied_objects_stay_unchanged() -> None:
    world = World()
    started(world)
    world.edit(manifest({**CPU_MODEL, "engine": {"args": {"max_model_length": 1}}}))
    assert message(world.step()).endswith("; objects that were applied before stay unchanged")


def test_schedulable_is_unknown_without_nodes_or_with_fit_check_off() -> None:
    large = manifest({**GPU_MODEL, "parallelism": {"tensor": 8}})
    decision = World(large).step(nodes=None)
    assert decision.apply
    assert conditions(decision)["Schedulable"] == "Unknown/NodesUnknown"
    large["metadata"]["annotations"] = {"daybreak.dev/fit-check": "off"}
    decision = World(large).step(nodes=(node(gpus=1),))
    assert decision.apply
    assert conditions(decision)["Schedulable"] == "Unknown/NodesUnknown"
    assert "daybreak.dev/fit-check" in message(decision, ConditionType.SCHEDULABLE)


def test_serving_service_that_fits_on_no_node_stays_ready() -> None:
    world = World(manifest({**GPU_MODEL, "parallelism": {"tensor": 8}}))
    started(world)
    decision = world.step(nodes=(node(gpus=4),))
    assert decision.apply
    assert conditions(decision)["Schedulable"] == "False/NoNodeFits"
    assert conditions(decision)["Ready"] == "True/Serving"
    assert conditions(decision)["Stalled"] == "False/Reconciled"


def test_existing_service_stalls_if_its_pod_finds_no_node() -> None:
    world = World(manifest({**GPU_MODEL, "parallelism": {"tensor": 8}}))
    world.step()
    status = ray_status(pending="chat-aaaaa", app="DEPLOYING", models={"qwen": "UPDATING"})
    lost = pod(
        model="qwen", placed=False, status=unplaced("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    )
    decision = world.step(
        nodes=(node(gpus=4),),
        ray_service=ray_service(world.observed.manifest, status=status),
        pods=(HEAD, lost),
    )
    assert decision.apply
    assert conditions(decision)["Stalled"] == "True/NoNodeFits"


def test_deleted_service_is_not_applied_and_reports_terminating() -> None:
    world = World()
    started(world)
    leaving = {
        **world.observed.manifest,
        "metadata": {**world.observed.manifest["metadata"], "deletionTimestamp": "x"},
    }
    decision = world.step(manifest=leaving)
    assert not decision.apply
    assert decision.ask == ()
    assert conditions(decision)["Ready"] == "False/Terminating"
    assert conditions(decision)["Stalled"] == "False/Terminating"


def test_accelerators_count_only_pods_that_hold_devices() -> None:
    world = World(manifest({**GPU_MODEL, "parallelism": {"tensor": 2}, "replicas": {"max": 4}}))
    world.step()
    pods = (
        HEAD,
        pod("w-1", model="qwen", gpus=2),
        pod("w-2", model="qwen", gpus=2, ready=False),
        pod("w-3", model="qwen", gpus=2, placed=False),
        pod("w-4", model="qwen", gpus=2, leaving=True),
        pod("w-5", model="qwen", gpus=2, status={"phase": "Failed"}),
    )
    decision = world.step(ray_service=running(world), pods=pods, answers={"qwen": True})
    assert (decision.status.replicas, decision.status.accelerators) == (1, 6)


def test_a_replica_is_ready_when_all_its_pods_are() -> None:
    world = World(manifest({**GPU_MODEL, "parallelism": {"pipeline": 2}, "replicas": {"max": 4}}))
    world.step()
    pods = (HEAD, *(pod(f"w-{number}", model="qwen", ready=number < 3) for number in range(4)))
    assert world.step(ray_service=running(world), pods=pods, answers={"qwen": True}).status.replicas == 1
    pods = (HEAD, *(pod(f"w-{number}", model="qwen") for number in range(4)))
    assert world.step(pods=pods).status.replicas == 2


def test_sleep_and_hold_without_gateway_are_reported_as_ineffective() -> None:
    decision = World(manifest(sleep={"afterIdle": "5m"}, hold={"maxRequests": 5})).step()
    report = message(decision, ConditionType.ACTIVE)
    assert "spec.sleep and spec.hold without effect" in report


def test_transition_time_changes_only_with_condition_status() -> None:
    world = World()

    def times() -> dict[str, str]:
        return {
            item["type"]: item["lastTransitionTime"]
            for item in world.observed.manifest["status"]["conditions"]
        }

    world.step(after=0)
    first = times()
    assert set(first.values()) == {"2026-11-21T12:00:00Z"}
    world.step(after=10, ray_service=running(world), pods=(HEAD, WORKER))
    assert {kind for kind, time in times().items() if time != first[kind]} == {"Active"}
    world.step(after=10, answers={"tiny": True})
    assert {kind for kind, time in times().items() if time.endswith("12:00:20Z")} == {"Ready", "Reconciling"}


def test_malformed_status_is_ignored() -> None:
    llm = manifest()
    llm["status"] = {"conditions": "none", "models": [7, {"name": 3}], "observedGeneration": "x"}
    assert World(llm).step().apply
    llm["spec"] = {"models": 4}
    assert conditions(World(llm).step())["Stalled"] == "True/InvalidSpec"


def test_decision_does_not_modify_its_input() -> None:
    world = World()
    started(world)
    observed = world.observed
    before = repr(observed)
    World(observed.manifest, ray_service=observed.ray_service, pods=observed.pods).step()
    assert repr(observed) == before
