"""A service in the accelerator queue: its position, its pods, and when it leaves."""

from datetime import timedelta

from daybreak.api.common.conditions import ConditionType
from daybreak.api.common.unstructured import written
from daybreak.kinds.llmservice.decide.cluster_bounds import cluster_bounds
from daybreak.scheduling.claim import Turn
from daybreak.workloads.claims import claims
from tests.unit.llmservice.decide.scenes.services import HEAD, World, conditions, message, pod
from tests.unit.llmservice.decide.scenes.sleeping import gate, view
from tests.unit.llmservice.decide.scenes.taking_turns import (
    COMES_AFTER,
    GIVES_WAY,
    NO_ROOM,
    after,
    idle,
    up,
    waking,
)
from tests.unit.llmservice.decision import Decision


def test_oldest_request_time_is_unchanged_by_report_jitter() -> None:
    world = waking()

    def held(seconds: float) -> Decision:
        oldest = timedelta(seconds=seconds)
        return world.step(gateway=view(held=2, held_for=oldest), turns=COMES_AFTER, pods=(HEAD,))

    report = held(40).status
    since = world.observed.now.replace(microsecond=0) - timedelta(seconds=40)
    assert report.gate is not None
    assert report.gate.models[0].accelerator_queue is not None
    assert report.gate.models[0].accelerator_queue.oldest_request_time == written(since)
    for second, late in enumerate((1, -1, 0), 1):
        assert held(40 + second + late).status == report
        [claim] = claims(world.observed)
        assert claim.held_since == since


def in_the_queue(**sleep: str) -> World:
    """Return a service that wakes for a request, cannot be scheduled, and is queued behind another one."""
    world = up(**sleep)
    idle(6, world, turns=GIVES_WAY)
    assert gate(idle(7, world, turns={})) == ("Asleep", "Closed", "Workers")
    assert gate(world.step(gateway=view(held=1), pods=(HEAD,))) == ("Waking", "Closed", None)
    assert gate(world.step(turns=COMES_AFTER)) == ("Waking", "Closed", None)
    return world


def test_queued_service_without_held_requests_leaves_queue() -> None:
    world = in_the_queue()
    [claim] = claims(world.observed)
    assert (claim.waits, claim.abandoned) == (True, False)
    left = idle(1, world)
    assert gate(left) == ("Waking", "Closed", None), "they may come again in a moment"
    assert left.requeue_after is not None
    assert left.requeue_after <= timedelta(seconds=1)
    [claim] = claims(world.observed)
    assert claim.abandoned, "nobody gives way to it meanwhile"
    drains = idle(2, world)
    assert gate(drains) == ("Draining", "Closed", None)
    assert drains.requeue_after == timedelta(0), "its gate was closed before: no gateway tells of it"
    [claim] = claims(world.observed)
    assert not claim.waits
    gone = idle(3, world)
    assert gate(gone) == ("Asleep", "Closed", "Workers")
    assert after(gone) is None
    assert conditions(gone)["Ready"] == "True/Asleep"
    assert gate(world.step(gateway=view(held=1))) == ("Waking", "Closed", None)


def test_new_request_returns_draining_service_to_waking() -> None:
    world = in_the_queue()
    assert gate(idle(2, world)) == ("Draining", "Closed", None)
    assert gate(world.step(gateway=view(held=1))) == ("Waking", "Closed", None)


def test_service_stays_in_queue_if_forced_awake_or_in_first_start() -> None:
    world = in_the_queue()
    world.observed.manifest["metadata"]["annotations"] = {"daybreak.dev/state": "Awake"}
    assert gate(idle(60, world)) == ("Waking", "Closed", None)
    assert not claims(world.observed)[0].abandoned
    # A service that has never slept starts without a request.
    first = waking()
    assert gate(idle(60, first, turns=COMES_AFTER)) == ("Waking", "Closed", None)
    assert not claims(first.observed)[0].abandoned


def test_queued_service_has_no_pods_and_reports_services_ahead() -> None:
    world = waking()
    decision = world.step(turns=COMES_AFTER)
    assert cluster_bounds(world.observed) == {"chat-aaaaa": {"qwen": (0, 0)}}
    decision = world.step(turns=COMES_AFTER, pods=(HEAD,))
    assert conditions(decision)["Active"] == "False/WaitingForAccelerators"
    report = "queued for accelerators behind default/other, default/third and 1 more"
    assert report in message(decision, ConditionType.ACTIVE)
    assert report in message(decision)
    assert after(decision) == ["default/other", "default/third", "default/fourth"]
    [claim] = claims(world.observed)
    assert claim.queued


HOLDERS = tuple(f"default/h{number}" for number in range(5))
COMES_FIRST = {"qwen": Turn(place=1, held_by=HOLDERS)}


def test_first_in_queue_reports_holders_until_its_pod_is_scheduled() -> None:
    world = up()
    idle(66, world, after=60, turns=GIVES_WAY)
    idle(67, world, turns={})
    pending = pod("w-1", model="qwen", ready=False, placed=False, status={"conditions": [NO_ROOM]})
    world.step(gateway=view(held=1), turns={}, pods=(HEAD, pending))
    patient = world.step(turns={"qwen": Turn(look_again=timedelta(seconds=3))})
    assert conditions(patient)["Active"] == "False/Waking", "pods that end free room within seconds"
    decision = world.step(turns=COMES_FIRST)
    assert conditions(decision)["Active"] == "False/WaitingForAccelerators"
    report = "at position 1; used by default/h0, default/h1, default/h2 and 2 more"
    assert f"queued for accelerators {report}" in message(decision, ConditionType.ACTIVE)
    assert decision.status.gate is not None
    [found] = decision.status.gate.models
    assert found.accelerator_queue is not None
    assert (found.accelerator_queue.position, found.accelerator_queue.held_by) == (1, list(HOLDERS))
    # The pods that used the accelerators are gone, and the scheduler has not placed the new pod yet.
    assert conditions(world.step(turns={"qwen": Turn(place=1)}))["Active"] == "False/WaitingForAccelerators"
    placed = pod("w-1", model="qwen", gpus=1, ready=False)
    decision = world.step(turns={}, pods=(HEAD, placed))
    assert conditions(decision)["Active"] == "True/Awake"
    assert decision.status.gate is not None
    assert decision.status.gate.models[0].accelerator_queue is not None
    assert decision.status.gate.models[0].accelerator_queue.held_by is None


def test_service_creates_pods_when_no_service_is_ahead_in_queue() -> None:
    world = waking()
    world.step(turns=COMES_AFTER, pods=(HEAD,))
    decision = world.step(turns={}, pods=(HEAD,))
    assert cluster_bounds(world.observed) == {"chat-aaaaa": {"qwen": (1, 1)}}
    assert after(decision) is None
