"""Decisions about a service behind a gateway: its status while it sleeps, wakes and drains."""

import pytest

from daybreak.api.common.conditions import ConditionType
from daybreak.api.llmservice.status import ModelState
from daybreak.workloads.conditions import FINDING
from daybreak.workloads.observed import GatewayView
from tests.unit.llmservice.decide.scenes.services import (
    HEAD,
    WORKER,
    World,
    conditions,
    manifest,
    message,
    node,
    running,
)
from tests.unit.llmservice.decide.scenes.sleeping import BIG_MODEL, LONG, NO_GPU, asleep, gate, up, view, wake


def test_a_service_that_has_never_answered_is_not_ready() -> None:
    world = World(gateway=view(held=1))
    decision = world.step()
    assert conditions(decision)["Ready"] == "Unknown/Progressing"
    assert gate(decision) == ("Waking", "Closed", None)
    assert wake(decision) is None


def test_sleeping_service_is_ready_and_not_probed() -> None:
    world = asleep()
    decision = world.step(pods=(HEAD,))
    assert gate(decision) == ("Asleep", "Closed", "Workers")
    assert conditions(decision)["Ready"] == "True/Asleep"
    assert conditions(decision)["Reconciling"] == "False/Reconciled"
    assert conditions(decision)["Active"] == "False/Asleep"
    [model] = decision.status.models
    assert (model.state, model.probed_configuration) == (ModelState.ASLEEP, None)
    assert decision.ask == ()
    assert world.step().status == decision.status, "nothing changes by itself"


def test_service_is_not_ready_without_gateway_reports() -> None:
    world = up()
    decision = world.step(after=LONG, gateway=GatewayView(20001))
    assert gate(decision) == ("Awake", "Open", None)
    assert conditions(decision)["Ready"] == "False/GatewayNotReporting"
    assert "daybreak-gateway" in message(decision)
    fresh = World(gateway=GatewayView(20001))
    assert conditions(fresh.step())["Ready"] == "Unknown/GatewayNotReporting"


def test_rejected_pods_of_the_gateway_are_quoted() -> None:
    world = up()
    decision = world.step(after=LONG, gateway=GatewayView(20001, rejected="pods are forbidden: quota"))
    assert conditions(decision)["Ready"] == "False/GatewayNotReporting"
    assert message(decision).endswith("its pods are rejected: pods are forbidden: quota")


def test_service_forced_asleep_is_not_ready() -> None:
    world = up()
    llm = manifest(sleep={"afterIdle": "10m"}, state="Asleep")
    world.edit(llm)
    world.step()
    decision = world.step()
    assert gate(decision) == ("Asleep", "Failed", "Workers")
    assert conditions(decision)["Ready"] == "False/Asleep"
    assert "state Asleep" in message(decision)


def test_sleeping_service_that_fits_on_no_node_is_not_stalled() -> None:
    world = asleep(sleep={"afterIdle": "10m", "depth": "Cluster"})
    decision = world.step(ray_service=None, pods=(), nodes=(node(cpu="1", memory="1Gi"),))
    assert decision.apply
    assert gate(decision) == ("Asleep", "Closed", "Cluster")
    decision = world.step()
    assert conditions(decision)["Stalled"] == "False/Reconciled"
    assert conditions(decision)["Ready"] == "True/Asleep"
    assert conditions(decision)["Schedulable"] == "False/NoNodeFits", "it is said all the same"


def test_first_start_that_fits_on_no_node_fails_gate_with_cause() -> None:
    world = World(manifest(BIG_MODEL), gateway=view(held=1), nodes=NO_GPU)
    decision = world.step()
    assert decision.apply, "a pod that waits is what brings nodes"
    assert gate(decision) == ("Failed", "Failed", None)
    assert decision.status.gate is not None
    assert "needs 1 nvidia.com/gpu" in (decision.status.gate.models[0].reason or "")


def test_ready_requires_that_gateways_reach_backend() -> None:
    world = World(manifest(sleep={"afterIdle": "10m"}), gateway=view(routed=False))
    world.step()
    opened = world.step(ray_service=running(world), pods=(HEAD, WORKER), answers={"tiny": True})
    assert gate(opened) == ("Awake", "Open", None)
    assert conditions(opened)["Ready"] == "Unknown/Progressing"
    assert "NetworkPolicy" not in message(opened), "the gateways have only just received the Ray head"
    assert opened.requeue_after == FINDING
    assert conditions(opened)["Reconciling"] == "True/Progressing"
    assert conditions(opened)["Stalled"] == "False/Reconciled"
    found = world.step(gateway=view())
    assert conditions(found)["Ready"] == "True/Serving"
    assert found.requeue_after is None or found.requeue_after > FINDING
    missed = world.step(after=60, gateway=view(routed=False))
    assert conditions(missed)["Ready"] == "True/Serving", "a busy proxy may miss a look"
    assert missed.requeue_after == FINDING
    lost = world.step(gateway=view(routed=False, unrouted=FINDING))
    assert conditions(lost)["Ready"] == "False/BackendUnreachable"
    assert "NetworkPolicy" in message(lost)
    assert gate(lost) == ("Awake", "Open", None), "whoever is held waits on; the gate is not the matter"
    assert conditions(world.step(gateway=view()))["Ready"] == "True/Serving"


def test_first_start_that_no_gateway_reaches_is_reported() -> None:
    world = World(manifest(sleep={"afterIdle": "10m"}), gateway=view(routed=False))
    world.step()
    world.step(ray_service=running(world), pods=(HEAD, WORKER), answers={"tiny": True})
    late = world.step(
        after=FINDING.total_seconds(),
        gateway=view(routed=False, unrouted=FINDING),
    )
    assert conditions(late)["Ready"] == "Unknown/BackendUnreachable"
    assert "NetworkPolicy" in message(late)


def test_model_that_cannot_start_fails_gate_with_its_error() -> None:
    world = World(gateway=view(held=2))
    world.step()
    failed = running(world, ready=False, app="DEPLOY_FAILED", message="no such weights", models={})
    decision = world.step(ray_service=failed, pods=(HEAD,))
    assert gate(decision) == ("Failed", "Failed", None)
    assert decision.status.gate is not None
    assert "no such weights" in (decision.status.gate.models[0].reason or "")


def test_invalid_spec_keeps_gate_and_sleep_depth() -> None:
    world = asleep()
    before = world.step(pods=(HEAD,)).status
    broken = {**manifest(), "spec": {"models": "none"}}
    world.edit(broken)
    decision = world.step()
    assert (decision.status.gate, decision.status.sleep_depth) == (before.gate, before.sleep_depth)
    assert decision.sleep_states == {}
    assert not decision.apply


def test_status_has_no_gate_and_no_sleep_depth_without_gateway() -> None:
    world = World(manifest(sleep={"afterIdle": "10m"}))
    decision = world.step()
    assert decision.sleep_states == {}
    assert (decision.status.gate, decision.status.sleep_depth) == (None, None)
    assert "sleep" in message(decision, kind=ConditionType.ACTIVE)


@pytest.mark.parametrize("depth", ["Workers", "Cluster"])
def test_service_created_with_state_asleep_starts_asleep(depth: str) -> None:
    world = World(manifest(state="Asleep", sleep={"depth": depth}), gateway=view())
    assert world.observed.asleep == depth, "before anything is decided or made"
    decision = world.step()
    assert gate(decision) == ("Asleep", "Failed", depth)
    assert conditions(decision)["Ready"] == "False/Asleep"
    assert decision.ask == ()
    assert world.step().status == decision.status
    world.edit(manifest())
    assert gate(world.step()) == ("Waking", "Closed", None)
