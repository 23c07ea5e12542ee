"""Each model of a service has its own gate and sleep state."""

from datetime import timedelta
from typing import Any

import pytest

from daybreak.api.common.conditions import ConditionType
from daybreak.gates.sleep_policy import HOLD_UNKNOWN as HOLD
from daybreak.gates.traffic import Traffic
from daybreak.kinds.llmservice.decide.cluster_bounds import cluster_bounds
from daybreak.workloads.observed import GatewayView
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    GPU_MODEL,
    HEAD,
    OTHER_MODEL,
    WORKER,
    World,
    conditions,
    manifest,
    message,
    node,
    pod,
    running,
    unplaced,
    waiting,
)
from tests.unit.llmservice.decision import Decision

OTHER_WORKER = pod("w-2", model="other")
BUSY = Traffic(known=True, acknowledged=2**53, routed=True, in_flight=1)
QUIET = Traffic(known=True, acknowledged=2**53, routed=True, idle=timedelta(hours=3))
HELD = Traffic(known=True, acknowledged=2**53, routed=True, held=1)
LATER = 10_000.0
SLEEP: Any = {"sleep": {"afterIdle": "10m"}}


def traffic(tiny: Traffic = BUSY, other: Traffic = BUSY) -> GatewayView:
    """Return the gateways' reports about each model."""
    return GatewayView(20001, {"tiny": tiny, "other": other})


def gates(decision: Decision) -> dict[str, tuple[str, str, str | None]]:
    """Return phase, gate and depth of each model."""
    assert decision.status.gate is not None
    return {gate.name: (gate.phase, gate.state, gate.sleep_depth) for gate in decision.status.gate.models}


AWAKE, ASLEEP, WAKING = ("Awake", "Open", None), ("Asleep", "Closed", "Workers"), ("Waking", "Closed", None)


def both_up(*models: Any, **spec: Any) -> World:
    """Return a service with two serving models."""
    llm = manifest(*(models or (CPU_MODEL, OTHER_MODEL)), **(spec or SLEEP))
    world = World(llm, gateway=traffic())
    world.step()
    pods = (HEAD, WORKER, OTHER_WORKER)
    answers: Any = {"tiny": True, "other": True}
    opened = world.step(ray_service=running(world), pods=pods, answers=answers)
    assert gates(opened) == {"tiny": AWAKE, "other": AWAKE}
    assert conditions(opened)["Ready"] == "True/Serving"
    return world


def other_asleep(*models: Any, **spec: Any) -> World:
    """Return the world of `both_up` after the other model has fallen asleep."""
    world = both_up(*models, **spec)
    draining = world.step(after=LATER, gateway=traffic(other=QUIET))
    assert gates(draining) == {"tiny": AWAKE, "other": ("Draining", "Closed", None)}
    assert draining.status.phase == "Awake"
    slept = world.step()
    assert gates(slept) == {"tiny": AWAKE, "other": ASLEEP}
    world.step(pods=(HEAD, WORKER))
    return world


def test_idle_model_sleeps_while_other_model_serves() -> None:
    world = other_asleep()
    decision = world.step()
    assert (decision.status.phase, decision.status.sleep_depth) == ("Awake", None)
    assert conditions(decision)["Ready"] == "True/Serving"
    assert message(decision).endswith("; asleep until a request arrives: other")
    assert conditions(decision)["Reconciling"] == "False/Reconciled"
    assert conditions(decision)["Stalled"] == "False/Reconciled"
    assert [model.state for model in decision.status.models] == ["Ready", "Asleep"]
    assert decision.ask == ()
    assert world.observed.given_back == {"other"}
    clusters = ({"metadata": {"name": "chat-aaaaa"}, "spec": {}},)
    world.step(ray_clusters=clusters)
    assert cluster_bounds(world.observed) == {"chat-aaaaa": {"tiny": (1, 1), "other": (0, 0)}}
    assert world.step().status == decision.status, "nothing changes by itself"


def test_request_wakes_only_the_requested_model() -> None:
    world = both_up()
    world.step(after=LATER, gateway=traffic(QUIET, QUIET))
    assert world.step().status.sleep_depth == "Workers"
    world.step(pods=(HEAD,))
    woken = world.step(gateway=traffic(HELD, QUIET))
    assert gates(woken) == {"tiny": WAKING, "other": ASLEEP}
    assert conditions(woken)["Ready"] == "True/Waking"
    assert world.step(pods=(HEAD, pod(ready=False))).ask == ("tiny",)
    opened = world.step(pods=(HEAD, WORKER), answers={"tiny": True})
    assert gates(opened) == {"tiny": AWAKE, "other": ASLEEP}
    assert opened.status.phase == "Awake"
    assert conditions(opened)["Ready"] == "True/Serving"


def test_awake_model_keeps_serving_while_other_model_wakes() -> None:
    world = other_asleep()
    woken = world.step(gateway=traffic(other=HELD))
    assert gates(woken) == {"tiny": AWAKE, "other": WAKING}
    assert (woken.status.phase, conditions(woken)["Ready"]) == ("Waking", "True/Waking")
    requested = world.step(pods=(HEAD, WORKER, pod("w-2", model="other", ready=False)))
    assert requested.ask == ("other",)
    opened = world.step(pods=(HEAD, WORKER, OTHER_WORKER), answers={"other": True})
    assert gates(opened) == {"tiny": AWAKE, "other": AWAKE}


def test_model_that_cannot_start_fails_only_its_own_gate() -> None:
    world = other_asleep()
    world.step(gateway=traffic(other=HELD))
    broken = pod("w-2", model="other", ready=False, status=waiting("ImagePullBackOff", "no such image"))
    failed = world.step(pods=(HEAD, WORKER, broken))
    assert gates(failed) == {"tiny": AWAKE, "other": ("Failed", "Failed", None)}
    assert conditions(failed)["Ready"].startswith("False/")
    assert conditions(failed)["Stalled"].startswith("True/")
    assert failed.status.phase == "Failed"
    mended = world.step(pods=(HEAD, WORKER, OTHER_WORKER), answers={"other": True})
    assert gates(mended) == {"tiny": AWAKE, "other": AWAKE}


def test_missing_nodes_delay_only_the_model_that_needs_them() -> None:
    large = {**GPU_MODEL, "name": "other", "parallelism": {"tensor": 4}}
    small = {**GPU_MODEL, "name": "tiny"}
    world = both_up(small, large, sleep={"afterIdle": "10m"})
    world.step(after=LATER, gateway=traffic(QUIET, QUIET))
    world.step()
    world.step(pods=(HEAD,), nodes=(node(gpus=1),))
    world.step(gateway=traffic(HELD, HELD))
    stuck = pod("w-2", model="other", placed=False, ready=False, status=unplaced("0/1 nodes are available"))
    one = world.step(pods=(HEAD, WORKER, stuck), answers={"tiny": True})
    assert gates(one) == {"tiny": AWAKE, "other": WAKING}
    late = world.step(after=HOLD)
    assert gates(late) == {"tiny": AWAKE, "other": ("Failed", "Failed", None)}
    assert conditions(late)["Stalled"] == "True/NoNodeFits"


def test_service_reaches_depth_cluster_only_when_both_models_sleep() -> None:
    deep: Any = {"sleep": {"afterIdle": "10m", "depth": "Cluster"}}
    world = both_up(**deep)
    world.step(after=LATER, gateway=traffic(other=QUIET))
    one = world.step()
    assert gates(one)["other"] == ("Asleep", "Closed", "Cluster")
    assert (one.status.sleep_depth, world.observed.asleep) == (None, None), (
        "the other model needs the cluster"
    )
    world.step(after=LATER, gateway=traffic(QUIET, QUIET))
    assert world.step().status.sleep_depth == "Cluster"
    world.step(ray_service=None, pods=())
    woken = world.step(gateway=traffic(HELD, QUIET))
    assert (woken.status.sleep_depth, gates(woken)["other"][0]) == (None, "Asleep")
    assert woken.status.gate is not None
    assert woken.status.gate.models[0].wake is not None
    assert woken.status.gate.models[0].wake.depth == "Cluster"


def test_a_model_that_is_appended_in_sleep_sleeps_too() -> None:
    world = World(manifest(CPU_MODEL, **SLEEP), gateway=traffic())
    world.step()
    world.step(ray_service=running(world), pods=(HEAD, WORKER), answers={"tiny": True})
    world.step(after=LATER, gateway=traffic(QUIET, QUIET))
    world.step()
    world.edit(manifest(CPU_MODEL, OTHER_MODEL, **SLEEP))
    assert gates(world.step()) == {"tiny": ASLEEP, "other": ASLEEP}


NO_SLEEP: Any = {}


@pytest.mark.parametrize(
    ("replicas", "spec", "idle"),
    [
        ({"min": 0}, NO_SLEEP, 300),
        ({"min": 0, "downscaleDelay": "1m"}, NO_SLEEP, 60),
        ({"min": 0, "downscaleDelay": "0s"}, NO_SLEEP, 1),
        ({"min": 0, "downscaleToZeroDelay": "20s"}, NO_SLEEP, 20),
        ({"min": 0}, SLEEP, 600),
        ({"min": 0, "downscaleToZeroDelay": "20s"}, SLEEP, 20),
        ({"min": 1, "downscaleToZeroDelay": "20s"}, SLEEP, 600),
        ({"min": 1}, {"replicas": 0}, 30),
        ({"min": 1}, {"replicas": 0, **SLEEP}, 30),
    ],
)
def test_model_sleeps_after_configured_idle_time(replicas: Any, spec: Any, idle: int) -> None:
    models = (CPU_MODEL, {**OTHER_MODEL, "replicas": replicas})
    world = both_up(*models, state="Awake")
    world.edit(manifest(*models, **spec))

    def after(seconds: float) -> str:
        now = Traffic(known=True, acknowledged=2**53, routed=True, idle=timedelta(seconds=seconds))
        return gates(world.step(after=LATER, gateway=traffic(other=now)))["other"][0]

    assert [after(idle - 0.5), after(idle)] == ["Awake", "Draining"]


@pytest.mark.parametrize("spec", [{"replicas": 2}, {"state": "Awake"}])
def test_model_with_min_zero_stays_awake_if_replicas_or_state_are_set(spec: Any) -> None:
    world = both_up(CPU_MODEL, {**OTHER_MODEL, "replicas": {"min": 0}}, **spec)
    assert gates(world.step(after=LATER, gateway=traffic(QUIET, QUIET)))["other"] == AWAKE


def test_model_with_zero_initial_replicas_sleeps_until_first_request() -> None:
    lazy = {**OTHER_MODEL, "replicas": {"min": 0, "initial": 0}}
    world = World(manifest(CPU_MODEL, lazy), gateway=traffic())
    assert gates(world.step()) == {"tiny": WAKING, "other": ASLEEP}
    decision = world.step(ray_service=running(world), pods=(HEAD, WORKER))
    assert decision.ask == ("tiny",)
    decision = world.step(answers={"tiny": True})
    assert gates(decision) == {"tiny": AWAKE, "other": ASLEEP}
    assert conditions(decision)["Ready"] == "True/Serving"
    assert "other" in message(decision)
    assert world.step().ask == ()
    assert gates(world.step(gateway=traffic(other=HELD)))["other"] == WAKING


def test_ready_reports_that_service_is_going_to_sleep() -> None:
    world = both_up()
    reported = world.step(after=LATER, gateway=traffic(QUIET, QUIET))
    assert "going to sleep" in message(reported, ConditionType.READY)
