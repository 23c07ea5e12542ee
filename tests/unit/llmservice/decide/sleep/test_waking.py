"""Decisions about a service that wakes: its progress, its failures, and lost capacity."""

from datetime import timedelta
from typing import Any

import pytest

from daybreak.api.common.conditions import ConditionType
from daybreak.api.llmservice.status import ModelState
from daybreak.gates.sleep_policy import HOLD_UNKNOWN as HOLD
from daybreak.workloads.conditions import FINDING
from tests.unit.llmservice.decide.scenes.services import (
    HEAD,
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
from tests.unit.llmservice.decide.scenes.sleeping import (
    BIG_MODEL,
    IDLE,
    LONG,
    NO_GPU,
    asleep,
    gate,
    view,
    wake,
)


def test_waking_model_is_probed_before_gate_opens() -> None:
    world = asleep()
    world.step(pods=(HEAD,))
    waking = world.step(gateway=view(held=1))
    assert gate(waking) == ("Waking", "Closed", None)
    waking = world.step(pods=(HEAD, pod(ready=False)))
    assert waking.ask == ("tiny",), "asked as soon as it has a node: the question waits in Serve"
    assert conditions(waking)["Ready"] == "True/Waking"
    assert gate(waking) == ("Waking", "Closed", None)
    opened = world.step(pods=(HEAD, WORKER), answers={"tiny": True})
    assert gate(opened) == ("Awake", "Open", None)
    taken = wake(opened)
    assert taken is not None
    assert taken.recent == [2]


@pytest.mark.parametrize(
    ("app", "tiny"), [("DEPLOYING", "UPDATING"), ("DEPLOYING", "UPSCALING"), ("RUNNING", "HEALTHY")]
)
def test_probe_answer_opens_gate_despite_stale_serve_status(app: str, tiny: str) -> None:
    """The model has answered; KubeRay's copy of the Serve status is some seconds old."""
    world = asleep()
    world.step(pods=(HEAD,))
    world.step(gateway=view(held=1))
    waking = running(world, app=app, models={"tiny": tiny}, generation=2)
    assert world.step(ray_service=waking, pods=(HEAD, WORKER)).ask == ("tiny",)
    opened = world.step(answers={"tiny": True})
    assert conditions(opened)["Ready"] == "True/Serving"
    for _ in range(3):
        later = world.step()
        assert conditions(later)["Ready"] == "True/Serving"
        assert gate(later) == ("Awake", "Open", None)
        assert later.ask == ()
    settled = world.step(ray_service=running(world, generation=2))
    assert conditions(settled)["Ready"] == "True/Serving"
    assert settled.ask == ()
    assert [model.state for model in settled.status.models] == [ModelState.READY]
    # From here on the Serve status counts: a restarted model has to answer again.
    again = world.step(ray_service=running(world, app="DEPLOYING", models={"tiny": "UPDATING"}, generation=2))
    assert conditions(again)["Ready"] == "Unknown/Progressing"


def test_ready_reports_current_step_of_wake() -> None:
    world = asleep()
    world.step(pods=(HEAD,))
    first = world.step(gateway=view(held=1))
    assert message(first).rpartition(": ")[2] == "its pods are being created"
    assert "sleep" not in message(first, kind=ConditionType.ACTIVE)
    serve = running(world, models={"tiny": "HEALTHY"})
    reported = [
        # The Serve status is still that of the healthy model before its sleep.
        world.step(ray_service=serve, pods=(HEAD,)),
        world.step(pods=(HEAD, pod(placed=False, ready=False))),
        world.step(pods=(HEAD, pod(ready=False))),
        world.step(ray_service=running(world, models={"tiny": "UPSCALING"}), pods=(HEAD, WORKER)),
        world.step(ray_service=serve),
    ]
    assert [message(each).rpartition(": ")[2] for each in reported] == [
        "it waits for a worker pod",
        "its worker pod waits for a node",
        "its worker pod is starting",
        "the engine is starting",
        "it is being probed",
    ]
    assert all(conditions(each)["Ready"] == "True/Waking" for each in reported)
    assert conditions(reported[0])["Active"] == "False/Waking"
    assert "it waits for a worker pod" in message(reported[0], kind=ConditionType.ACTIVE)
    assert conditions(reported[1])["Active"] == "False/Waking", "a pending pod uses no accelerators"
    assert "no worker pod is on a node yet" in message(reported[1], kind=ConditionType.ACTIVE)
    assert conditions(reported[2])["Active"] == "True/Awake"
    assert world.step().status == reported[-1].status, "nothing changes by itself"


def test_unschedulable_worker_keeps_gate_closed_and_is_reported() -> None:
    world = asleep()
    world.step(pods=(HEAD,))
    world.step(gateway=view(held=1))
    stuck = pod(placed=False, ready=False, status=unplaced("0/3 nodes are available"))
    decision = world.step(pods=(HEAD, stuck))
    assert gate(decision)[1] == "Closed"
    assert "tiny" in message(decision)


@pytest.mark.parametrize("depth", ["Workers", "Cluster"])
def test_wake_creates_pods_although_nodes_are_missing(depth: str) -> None:
    """The nodes left with the sleep. An autoscaler adds nodes for pending pods: no request is rejected."""
    world = asleep(BIG_MODEL, sleep={"afterIdle": "10m", "depth": depth})
    ray = world.observed.ray_service
    gone = {"ray_service": None, "pods": ()} if depth == "Cluster" else {"pods": (HEAD,)}
    world.step(nodes=NO_GPU, **gone)
    assert gate(world.step(gateway=view(held=1))) == ("Waking", "Closed", None)
    stuck = pod(placed=False, ready=False, status=unplaced("0/1 nodes are available"))
    for observed in (
        {},
        {"ray_service": ray, "pods": (HEAD,)},
        {"pods": (HEAD, stuck)},
        {"after": HOLD - 60},
    ):
        decision = world.step(**observed)
        assert decision.apply, "the objects are made"
        assert gate(decision) == ("Waking", "Closed", None)
        assert conditions(decision)["Stalled"] == "False/Reconciled"
        assert conditions(decision)["Ready"] == "True/Waking"
        assert conditions(decision)["Reconciling"] == "False/Reconciled"
        assert conditions(decision)["Schedulable"] == "False/NoNodeFits"
        assert "needs 1 nvidia.com/gpu" in message(decision, kind=ConditionType.SCHEDULABLE)
        assert "needs 1 nvidia.com/gpu" in message(decision)
        assert message(decision).endswith("its pods wait for such a node")
        assert decision.requeue_after is not None
        assert decision.requeue_after.total_seconds() <= HOLD
    opened = world.step(nodes=(node(gpus=8),), pods=(HEAD, WORKER), answers={"tiny": True})
    assert gate(opened) == ("Awake", "Open", None)
    taken = wake(opened)
    assert taken is not None
    assert (taken.failed, len(taken.recent)) == (None, 1)
    # From here on the service runs, and its nodes are expected to exist.
    lost = world.step(nodes=NO_GPU, pods=(HEAD, stuck), ray_service=running(world, ready=False, app=None))
    assert conditions(lost)["Stalled"] == "True/NoNodeFits"


def test_gate_fails_if_nodes_stay_missing_and_opens_when_nodes_return() -> None:
    """Earlier requests were held for the maximum time; from then on requests are rejected immediately."""
    world = asleep(BIG_MODEL)
    world.step(nodes=NO_GPU, pods=(HEAD,))
    world.step(gateway=view(held=1))
    stuck = pod(placed=False, ready=False, status=unplaced("0/1 nodes are available"))
    world.step(pods=(HEAD, stuck))
    late = world.step(after=HOLD)
    assert late.apply, "the pods go on waiting"
    assert gate(late) == ("Failed", "Failed", None)
    assert conditions(late)["Stalled"] == "True/NoNodeFits"
    assert late.status.gate is not None
    assert "needs 1 nvidia.com/gpu" in (late.status.gate.models[0].reason or "")
    opened = world.step(after=3600, nodes=(node(gpus=8),), pods=(HEAD, WORKER), answers={"tiny": True})
    assert gate(opened) == ("Awake", "Open", None)
    taken = wake(opened)
    assert taken is not None
    assert (taken.failed, taken.recent) == (True, [])


def test_unschedulable_spec_is_reported_during_wake_until_spec_is_fixed() -> None:
    world = asleep(BIG_MODEL)
    world.step(pods=(HEAD,))
    world.step(gateway=view(held=1))
    spec: Any = {"sleep": {"afterIdle": "10m"}}
    world.edit(manifest({**BIG_MODEL, "parallelism": {"tensor": 16}}, **spec))
    decision = world.step()
    assert decision.apply
    assert gate(decision) == ("Waking", "Closed", None)
    assert conditions(decision)["Schedulable"] == "False/NoNodeFits"
    assert "needs 16 nvidia.com/gpu" in message(decision)
    world.edit(manifest(BIG_MODEL, **spec))
    assert conditions(world.step())["Schedulable"] == "True/NodesFit"


def test_failed_wake_fails_gate_and_is_excluded_from_percentiles() -> None:
    world = asleep()
    world.step(pods=(HEAD,))
    world.step(gateway=view(held=1))
    broken = waiting("ImagePullBackOff", "no such image")
    failed = world.step(pods=(HEAD, pod(ready=False, status=broken)))
    assert gate(failed) == ("Failed", "Failed", None)
    mended = world.step(after=5 * 3600, pods=(HEAD, WORKER), answers={"tiny": True})
    assert gate(mended) == ("Awake", "Open", None)
    assert conditions(mended)["Ready"] == "True/Serving"
    taken = wake(mended)
    assert taken is not None
    assert (taken.failed, taken.recent, taken.p95_seconds) == (True, [], None)
    assert taken.seconds is not None
    assert taken.seconds > 5 * 3600


def test_gateways_get_grace_period_to_reach_new_head_after_wake() -> None:
    world = asleep(sleep={"afterIdle": "10m", "depth": "Cluster"})
    world.step(ray_service=None, pods=())
    world.step(gateway=view(held=1, routed=False, unrouted=timedelta(minutes=9)))
    opened = world.step(ray_service=running(world), pods=(HEAD, WORKER), answers={"tiny": True})
    assert gate(opened) == ("Awake", "Open", None)
    assert conditions(opened)["Ready"] == "True/Waking"
    assert opened.requeue_after == FINDING
    late = world.step(after=FINDING.total_seconds())
    assert conditions(late)["Ready"] == "False/BackendUnreachable"


def test_model_is_not_probed_before_its_pod_has_a_node() -> None:
    """Serve holds a probe for minutes: probes of pods that wait for nodes would delay others."""
    world = asleep()
    world.step(pods=(HEAD,))
    world.step(gateway=view(held=1))
    assert world.step().ask == ()
    assert world.step(pods=(HEAD, pod(placed=False, ready=False))).ask == ()
    assert world.step(pods=(HEAD, pod(ready=False))).ask == ("tiny",)


def test_a_wake_that_takes_longer_than_requests_are_held_is_not_ready() -> None:
    world = asleep()
    world.step(pods=(HEAD,))
    first = world.step(gateway=view(held=1))
    assert first.requeue_after is not None, "time alone makes it late"
    no_room = pod(placed=False, ready=False, status=unplaced("0/1 nodes are available: 1 Insufficient gpu."))
    assert conditions(world.step(pods=(HEAD, no_room)))["Ready"] == "True/Waking"
    for _ in range(2):
        late = world.step(after=HOLD)
        assert conditions(late)["Ready"] == "False/Unschedulable"
        assert f"{HOLD} s" in message(late)
        assert "1 Insufficient gpu" in message(late)
        assert gate(late) == ("Waking", "Closed", None), "requests are still held"
    assert world.step().status == late.status, "nothing changes by itself"
    opened = world.step(pods=(HEAD, WORKER), answers={"tiny": True})
    assert conditions(opened)["Ready"] == "True/Serving"


def test_late_wake_without_known_cause_reports_current_step() -> None:
    world = asleep()
    world.step(pods=(HEAD,))
    world.step(gateway=view(held=1))
    late = world.step(after=HOLD, pods=(HEAD, pod(ready=False)))
    assert conditions(late)["Ready"] == "False/WakeTimedOut"
    assert "its worker pod is starting" in message(late)


def test_unschedulable_wake_is_abandoned_if_service_is_idle() -> None:
    world = asleep()
    world.step(pods=(HEAD,))
    world.step(gateway=view(held=1))
    no_room = pod(placed=False, ready=False, status=unplaced("0/1 nodes are available: 1 Insufficient gpu."))
    assert gate(world.step(pods=(HEAD, no_room))) == ("Waking", "Closed", None)
    assert gate(world.step(after=60, gateway=view())) == ("Waking", "Closed", None), "it may come back"
    world.step(after=LONG, gateway=IDLE)
    given_up = world.step()
    assert gate(given_up) == ("Asleep", "Closed", "Workers")
    assert conditions(given_up)["Ready"] == "True/Asleep"


def test_scheduled_wake_continues_if_service_is_idle() -> None:
    world = asleep()
    world.step(pods=(HEAD,))
    world.step(gateway=view(held=1))
    world.step(pods=(HEAD, pod(ready=False)))
    assert gate(world.step(after=LONG, gateway=IDLE)) == ("Waking", "Closed", None)


def test_unschedulable_first_start_continues_if_service_is_idle() -> None:
    world = World(manifest(sleep={"afterIdle": "10m"}), gateway=IDLE)
    world.step()
    no_room = pod(placed=False, ready=False, status=unplaced("0/1 nodes are available: 1 Insufficient gpu."))
    assert gate(world.step(pods=(HEAD, no_room))) == ("Waking", "Closed", None)
    for _ in range(2):
        assert gate(world.step(after=LONG)) == ("Waking", "Closed", None)
