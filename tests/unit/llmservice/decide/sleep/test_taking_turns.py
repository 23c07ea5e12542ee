"""Behavior of a service with and without a turn in the accelerator queue."""

from dataclasses import replace
from datetime import timedelta

import pytest

from daybreak.api.common.conditions import ConditionType
from daybreak.kinds.llmservice.decide.cluster_bounds import cluster_bounds
from daybreak.scheduling.claim import Turn
from daybreak.workloads.claims import claims
from daybreak.workloads.observed import GatewayView
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    GPU_MODEL,
    HEAD,
    World,
    conditions,
    manifest,
    message,
    pod,
    running,
)
from tests.unit.llmservice.decide.scenes.services import ray_service as made
from tests.unit.llmservice.decide.scenes.sleeping import gate, view
from tests.unit.llmservice.decide.scenes.taking_turns import (
    CLUSTER,
    GIVES_WAY,
    NO_ROOM,
    after,
    idle,
    up,
    waking,
)
from tests.unit.llmservice.decision import Decision


def test_idle_service_yields_accelerators() -> None:
    world = up()
    assert gate(idle(5, world)) == ("Awake", "Open", None)
    assert gate(idle(6, world, turns=GIVES_WAY)) == ("Draining", "Closed", None)
    assert gate(idle(7, world, turns={})) == ("Asleep", "Closed", "Workers")


def test_request_while_draining_keeps_service_awake() -> None:
    world = up()
    assert gate(idle(6, world, turns=GIVES_WAY)) == ("Draining", "Closed", None)
    assert gate(world.step(gateway=view(held=1), turns={})) == ("Awake", "Open", None)


@pytest.mark.parametrize("traffic", [view(in_flight=1), view(held=1), view(idle=timedelta(seconds=1))])
def test_service_with_recent_requests_does_not_yield(traffic: object) -> None:
    world = up()
    assert gate(world.step(gateway=traffic, turns=GIVES_WAY)) == ("Awake", "Open", None)


@pytest.mark.parametrize("sleep", [{"yield": "Never"}, {"minAwake": "5m"}])
def test_idle_service_does_not_yield_if_spec_prevents_yield(sleep: dict[str, str]) -> None:
    world = up(**sleep)
    assert gate(idle(30, world, turns=GIVES_WAY)) == ("Awake", "Open", None)
    yields = claims(world.observed)[0].yields_at
    assert yields is None or yields > world.observed.now


@pytest.mark.parametrize(
    ("models", "answers"), [({"qwen": "UPDATING"}, {"qwen": True}), ({"qwen": "UNHEALTHY"}, {"qwen": False})]
)
def test_updating_or_unresponsive_service_does_not_yield(
    models: dict[str, str], answers: dict[str, bool]
) -> None:
    """An updating or unresponsive model would stay awake, and block the next candidate."""
    world = up()
    idle(30, world, ray_service=running(world, models=models, app="DEPLOYING"), answers=answers)
    decision = idle(31, world)
    assert gate(idle(32, world, turns=GIVES_WAY))[1] == "Open"
    [claim] = claims(world.observed)
    assert claim.yields_at is None or claim.yields_at > world.observed.now + timedelta(hours=1)
    assert decision.status.gate is not None
    assert decision.status.gate.models[0].kept_awake is not None
    idle(40, world, ray_service=running(world), answers={"qwen": True}, turns={})
    idle(100, world, after=60)
    [claim] = claims(world.observed)
    assert claim.yields_at is not None
    assert claim.yields_at <= world.observed.now
    assert gate(idle(101, world, turns=GIVES_WAY)) == ("Draining", "Closed", None)


@pytest.mark.parametrize("traffic", [view(in_flight=1), view(held=1), view(idle=timedelta(seconds=1))])
def test_service_with_yield_always_yields_despite_requests(traffic: GatewayView) -> None:
    world = up(**{"yield": "Always", "minAwake": "1m"})
    world.step(gateway=traffic)
    [claim] = claims(world.observed)
    assert claim.busy
    assert claim.yields_at is not None
    assert claim.yields_at <= world.observed.now
    assert gate(world.step(gateway=traffic, turns=GIVES_WAY)) == ("Draining", "Closed", None)


def test_yielding_service_finishes_requests_in_flight_and_holds_others() -> None:
    world = up(**{"yield": "Always"})
    busy, held = view(in_flight=1, held=2), view(held=2)
    assert gate(world.step(gateway=busy, turns=GIVES_WAY)) == ("Draining", "Closed", None)
    assert gate(world.step(gateway=busy, turns=GIVES_WAY)) == ("Draining", "Closed", None)
    [claim] = claims(world.observed)
    assert (claim.leaving, claim.stays_down) == (True, True)
    assert gate(world.step(gateway=held, turns=GIVES_WAY)) == ("Asleep", "Closed", "Workers")
    decision = world.step(gateway=held, turns=GIVES_WAY, pods=(HEAD,))
    assert gate(decision) == ("Asleep", "Closed", "Workers")
    assert after(decision) == ["default/other"]
    assert conditions(decision)["Active"] == "False/WaitingForAccelerators"
    assert "behind default/other" in message(decision, ConditionType.ACTIVE)
    [claim] = claims(world.observed)
    assert claim.stays_down
    assert gate(world.step(gateway=held, turns={})) == ("Waking", "Closed", None)


def test_draining_service_reopens_gate_if_no_service_waits() -> None:
    world = up(**{"yield": "Always"})
    assert gate(world.step(gateway=view(held=2), turns=GIVES_WAY)) == ("Draining", "Closed", None)
    assert gate(world.step(gateway=view(held=2), turns={})) == ("Awake", "Open", None)


def test_claim_states_held_accelerators_and_yield_time() -> None:
    world = up()
    idle(20, world)
    [claim] = claims(world.observed)
    assert (claim.owner, claim.model, claim.resource) == ("default/chat", "qwen", "nvidia.com/gpu")
    assert (claim.holds, claim.waits) == ({"node-a": 1}, False)
    assert claim.yields_at == world.observed.now - timedelta(seconds=18)
    # No reconcile happens when the idle time ends: the claim reports that time in advance.
    idle(0, world)
    [claim] = claims(world.observed)
    assert claim.yields_at == world.observed.now + timedelta(seconds=2)


def test_devices_of_resource_claim_are_counted_as_held() -> None:
    claim = {"templateName": "one-gpu", "devices": 1}
    world = World(
        manifest({**GPU_MODEL, "accelerator": {"claim": claim}}, sleep={"afterIdle": "10m"}), gateway=view()
    )
    world.step()
    world.step(ray_service=running(world), pods=(HEAD, pod("w-1", model="qwen")), answers={"qwen": True})
    [found] = claims(world.observed)
    assert (found.resource, found.devices, found.holds) == ("resource.k8s.io", 1, {"node-a": 1})


@pytest.mark.parametrize(
    ("words", "lacks"),
    [
        ("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {a: b}.", True),
        ("0/1 nodes are available: 1 Insufficient memory.", True),
        ("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", False),
        ("0/1 nodes are available: 1 Too many pods.", False),
    ],
)
def test_cpu_model_is_short_only_if_cpu_or_memory_is_insufficient(words: str, lacks: bool) -> None:
    world = World(manifest(CPU_MODEL, sleep={"afterIdle": "10m"}), gateway=view(held=1))
    world.step()
    report = NO_ROOM | {"message": words}
    worker = pod("w-1", model="tiny", ready=False, placed=False, status={"conditions": [report]})
    world.step(ray_service=made(world.observed.manifest), ray_clusters=CLUSTER, pods=(HEAD, worker))
    [claim] = claims(world.observed)
    assert (claim.resource, claim.devices, claim.waits, claim.short) == ("cpu", 0, True, lacks)
    assert claim.needs["cpu"] == 2
    assert claim.lacks == 1
    comes_after = {"tiny": Turn(after=("default/other",), cores=True)}
    decision = world.step(turns=comes_after)
    assert cluster_bounds(world.observed) == {"chat-aaaaa": {"tiny": (0, 0)}}
    decision = world.step(turns=comes_after, pods=(HEAD,))
    assert "queued for CPUs and memory behind default/other" in message(decision)


def test_claim_of_unschedulable_service_states_start_of_wait() -> None:
    [claim] = claims(waking().observed)
    assert claim.waits
    assert claim.requested
    assert claim.devices == 1
    assert claim.no_room_since is not None
    assert claim.nodes == frozenset({"node-a"})
    assert not claim.queued


def test_awake_service_that_lost_its_pod_waits_with_open_gate() -> None:
    world = up()
    other = pod("w-2", model="qwen", ready=False, placed=False, status={"conditions": [NO_ROOM]})
    leaving = {**pod("w-1", model="qwen", gpus=1)}
    leaving["metadata"] = {**leaving["metadata"], "deletionTimestamp": "2026-11-21T12:00:00Z"}
    world.step(gateway=view(in_flight=1), pods=(HEAD, leaving, other))
    assert not claims(world.observed)[0].lost, "what it has lost may be what it gets"
    decision = world.step(gateway=view(in_flight=1), pods=(HEAD, other))
    [claim] = claims(world.observed)
    assert (claim.lost, claim.waits, claim.short, claim.overdue) == (True, False, True, False)
    assert claim.nodes == frozenset({"node-a"})
    assert gate(decision)[1] == "Open"
    assert gate(world.step(turns={"qwen": Turn(place=1)}))[1] == "Open"
    world.step(after=3600)
    assert claims(world.observed)[0].overdue, "others need not wait for it for ever"
    # Another awake model has lost pods too, and is ahead in the queue.
    gives_back = {"qwen": Turn(gives_way_to="default/other", preempted=True)}
    assert gate(world.step(turns=gives_back)) == ("Draining", "Closed", None)
    assert gate(world.step(gateway=view(held=1), turns=gives_back)) == ("Asleep", "Closed", "Workers")
    assert not claims(world.observed)[0].lost


def test_unschedulable_second_replica_is_not_a_lost_pod() -> None:
    """A serving model is not queued: Ray's autoscaler requests a second replica."""
    world = up()
    more = pod("w-2", model="qwen", ready=False, placed=False, status={"conditions": [NO_ROOM]})
    world.step(gateway=view(in_flight=9), pods=(HEAD, pod("w-1", model="qwen", gpus=1), more))
    assert not claims(world.observed)[0].lost


def test_yielded_to_names_other_service_until_wake() -> None:
    def other(decision: Decision) -> str | None:
        assert decision.status.gate is not None
        return decision.status.gate.models[0].yielded_to

    world = up()
    assert other(idle(6, world)) is None
    assert other(idle(6, world, turns=GIVES_WAY)) == "default/other"
    assert other(world.step(gateway=view(held=1), turns={})) is None, "turned round: nothing was given back"
    idle(66, world, after=60, turns=GIVES_WAY)
    assert other(idle(67, world, turns={})) == "default/other"
    assert other(world.step(gateway=view(held=1), turns={})) is None
    # A sleep after the idle time yields to no other model.
    by_clock = up()
    idle(601, by_clock, after=601)
    assert other(idle(602, by_clock, turns={})) is None


def test_reconcile_is_requeued_after_delay_of_turn() -> None:
    world = waking()
    soon = {"qwen": Turn(look_again=timedelta(seconds=0.5))}
    assert world.step(turns=soon).requeue_after == timedelta(seconds=0.5)


def test_service_without_gateway_has_no_claims() -> None:
    world = World(manifest(GPU_MODEL))
    world.step()
    assert claims(replace(world.observed, gateway=None)) == ()


def test_claim_reports_no_shortage_while_own_pod_terminates() -> None:
    """A new pod of the same model cannot be scheduled until the old one terminates, as in a replacement."""
    world = World(manifest(GPU_MODEL), gateway=view())
    waits = pod("w-2", model="qwen", gpus=1, placed=False, ready=False)
    waits["status"] = {"phase": "Pending", "conditions": [NO_ROOM]}
    world.step(pods=(HEAD, waits))
    [claim] = claims(world.observed)
    assert claim.no_room_since is not None
    world.step(pods=(HEAD, waits, pod("w-1", model="qwen", gpus=1, leaving=True)))
    [claim] = claims(world.observed)
    assert claim.no_room_since is None
