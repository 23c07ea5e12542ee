"""Decisions on a ModelServer, and the status that reports them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from daybreak.api.common.conditions import Reason
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.gates.traffic import Traffic
from daybreak.kinds.modelserver.decide.plan import objects
from daybreak.kinds.modelserver.functions import view_of
from daybreak.kinds.modelserver.objects.deployment import configuration
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kinds.modelserver.reconciler import question
from daybreak.scheduling.claim import Turn
from daybreak.workloads.answer import Answer
from tests.unit.modelserver.decision import Decision, decide
from tests.unit.modelserver.servers import ASKED, CUSTOM, NOW, PLATFORM, QUIET, live, observe, pod, server

ONE = server()
RUNS = configuration(live(ONE))
ANSWERED = (Answer("tiny", True),)
HELD = Traffic(known=True, held=2, acknowledged=10**15, routed=True)


def read_message(decision: Decision) -> dict[str, Any]:
    """Return the status as it is written."""
    return decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)


def read_report(decision: Decision, kind: str) -> tuple[str, str]:
    """Return a condition's status and reason."""
    [found] = [each for each in decision.status.conditions if each.type == kind]
    return found.status, found.reason


def replicas(observed: Observed) -> int:
    """Return the number of replicas in the desired Deployment."""
    [found] = [each for each in objects(view_of(observed), PLATFORM) if each["kind"] == "Deployment"]
    return int(found["spec"]["replicas"])


def after(decision: Decision, before: Observed, **more: Any) -> Observed:
    """Return the next observation, with the status that the decision wrote."""
    return replace(before, manifest={**before.manifest, "status": read_message(decision)}, **more)


def awake(traffic: Traffic = ASKED) -> Observed:
    """Return an awake server that has answered a probe."""
    first = observe(None, pod(ONE), traffic=traffic, answers=ANSWERED)
    return after(decide(first), first, answers=())


def asleep() -> Observed:
    """Return a sleeping server."""
    one = replace(awake(QUIET), now=NOW + timedelta(hours=2))
    draining = after(decide(one), one)
    assert decide(one).status.phase is Phase.DRAINING
    down = decide(draining)
    return after(down, draining, pods=(), deployment=live(ONE, 0))


def test_new_server_is_applied_and_waking() -> None:
    decision = decide(observe(None, deployment=None))
    assert decision.apply
    assert not decision.ask
    assert decision.status.phase is Phase.WAKING
    assert read_report(decision, "Ready") == ("Unknown", "Progressing")
    assert read_report(decision, "Reconciling") == ("True", "Progressing")


def test_ready_pod_is_probed_and_its_answer_opens_gate() -> None:
    one = observe(None, pod(ONE))
    decision = decide(one)
    assert decision.ask
    assert decision.sleep_state is not None
    assert decision.sleep_state.gate is GateState.CLOSED
    answered = decide(replace(one, answers=ANSWERED))
    assert not answered.ask
    assert answered.status.probed_configuration == RUNS
    assert answered.sleep_state is not None
    assert answered.sleep_state.gate is GateState.OPEN
    assert read_report(answered, "Ready") == ("True", "Serving")
    gate = answered.status.gate
    assert gate is not None
    [pods] = gate.backends
    assert (pods.cluster, pods.port, pods.health_path) == ("server.chat", 8000, "/health")


@pytest.mark.parametrize(("protocol", "end"), [("OpenAI", "/v1"), ("V2", ""), ("Any", "")])
def test_status_states_protocol_and_url_of_protocol(protocol: str, end: str) -> None:
    status = read_message(decide(observe(None, traffic=ASKED, spec={"protocol": protocol})))
    assert status["gate"]["protocol"] == protocol
    assert status["url"] == f"http://chat.default.svc{end}"


@pytest.mark.parametrize(
    ("spec", "host", "base", "path"),
    [
        ({}, "10.0.0.7", "http://10.0.0.7:8000/v1", ""),
        (
            CUSTOM | {"protocol": "V2", "port": 9000},
            "fd00::7",
            "http://[fd00::7]:9000",
            "/v2/models/tiny/ready",
        ),
    ],
)
def test_probe_address_and_path_follow_protocol(
    spec: dict[str, Any], host: str, base: str, path: str
) -> None:
    one = server(**spec)
    requested = question(view_of(observe(None, pod(one, podIP=host), spec=spec)), waking=True)
    assert requested is not None
    assert (requested.base, requested.path, requested.waking) == (base, path, True)
    assert question(view_of(observe(None, pod(one, podIP=""), spec=spec)), waking=True) is None


def test_server_with_failed_probe_is_not_ready_and_probed_less_often() -> None:
    one = observe(None, pod(ONE), answers=(Answer("tiny", False, "it says 500"),))
    decision = decide(one)
    assert read_report(decision, "Ready") == ("False", "ProbeFailed")
    first = decision.requeue_after
    later = decide(after(decision, one, answers=(), now=NOW + timedelta(minutes=10)))
    assert read_report(later, "Ready") == ("False", "ProbeFailed"), (
        "the probe is in progress, without a new result"
    )
    assert first is not None
    assert later.requeue_after is not None
    assert later.requeue_after > first


def test_idle_server_drains_and_then_sleeps_without_pods() -> None:
    one = asleep()
    decision = decide(one)
    assert decision.status.phase is Phase.ASLEEP
    assert one.asleep
    assert read_report(decision, "Ready") == ("True", "Asleep")
    assert read_report(decision, "Active") == ("False", "Asleep")
    assert read_report(decision, "Reconciling") == ("False", "Reconciled")
    assert decision.status.probed_configuration is None, "the next wake needs a new probe"


def test_held_request_wakes_server_and_ready_stays_true() -> None:
    one = replace(asleep(), gateway=replace(awake().gateway, traffic={"tiny": HELD}))  # type: ignore[type-var]
    woken = decide(one)
    assert woken.sleep_state is not None
    assert woken.sleep_state.asleep is None
    assert read_report(woken, "Ready") == ("True", "Waking")
    up = after(woken, one, deployment=live(ONE), pods=(pod(ONE, ready=False),))
    assert read_report(decide(up), "Ready") == ("True", "Waking")
    assert not decide(up).ask
    there = replace(up, pods=(pod(ONE),))
    assert decide(there).ask
    opened = decide(replace(there, answers=ANSWERED))
    assert opened.sleep_state is not None
    assert opened.sleep_state.gate is GateState.OPEN
    gate = opened.status.gate
    assert gate is not None
    wake = gate.models[0].wake
    assert wake is not None
    assert wake.seconds is not None


def test_wake_longer_than_hold_time_is_reported_as_timed_out() -> None:
    one = replace(asleep(), gateway=replace(awake().gateway, traffic={"tiny": HELD}))  # type: ignore[type-var]
    up = after(decide(one), one, now=one.now + timedelta(hours=1))
    assert read_report(decide(up), "Ready") == ("False", "WakeTimedOut")


def test_a_pod_that_comes_back_needs_no_new_answer() -> None:
    one = awake()
    gone = decide(replace(one, pods=(pod(ONE, ready=False),)))
    assert gone.sleep_state is not None
    assert gone.sleep_state.gate is GateState.OPEN, "the pod still has the forwarded requests"
    back = decide(after(gone, one))
    assert not back.ask
    assert read_report(back, "Ready") == ("True", "Serving")


def test_crashing_container_stalls_server_and_fails_gate_with_cause() -> None:
    crashed = {
        "name": "engine",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no such model"}},
    }
    one = observe(None, pod(ONE, ready=False, containerStatuses=[crashed]))
    decision = decide(one)
    assert read_report(decision, "Stalled") == ("True", "ContainerCrashing")
    assert read_report(decision, "Ready") == ("False", "ContainerCrashing")
    assert decision.status.phase is Phase.FAILED
    assert decision.sleep_state is not None
    assert "no such model" in decision.sleep_state.reason, "clients receive the reason"
    running = dict(crashed, state={"running": {}})
    trying = decide(after(decision, one, pods=(pod(ONE, ready=False, containerStatuses=[running]),)))
    assert trying.status.phase is Phase.WAKING, "another attempt"


def test_rejected_pods_stall_server_with_cause() -> None:
    failed = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    made = live(ONE)
    made["status"]["conditions"] = [failed]
    decision = decide(observe(None, deployment=made))
    assert read_report(decision, "Stalled") == ("True", "ObjectRejected")
    assert "exceeded quota" in next(each.message for each in decision.status.conditions)


def test_field_that_admits_a_rejected_pod_is_named() -> None:
    message = 'pods "one-" is forbidden: failed quota: team: must specify limits.cpu for: engine'
    made = live(ONE)
    made["status"]["conditions"] = [{"type": "ReplicaFailure", "status": "True", "message": message}]
    decision = decide(observe(None, deployment=made))
    report = next(each.message for each in decision.status.conditions if each.type == "Ready")
    assert message in report
    assert report.endswith("set resources.limits.cpu of container engine in spec.podTemplate")


def test_server_is_ready_and_updating_until_new_revision_has_answered() -> None:
    one = awake()
    changed = {"engineArgs": {"max_num_seqs": 2}}
    other = server(**changed)
    on_the_way = observe(dict(one.status), pod(ONE), traffic=ASKED, spec=changed)
    decision = decide(on_the_way)
    assert read_report(decision, "Ready") == ("True", "Serving")
    assert decision.status.phase is Phase.UPDATING
    assert read_report(decision, "Reconciling") == ("True", "Updating")
    both = decide(after(decision, on_the_way, pods=(pod(ONE), pod(other))))
    assert both.ask
    done = after(decision, on_the_way, pods=(pod(other),), answers=ANSWERED)
    assert decide(done).status.phase is Phase.AWAKE
    assert decide(done).status.probed_configuration == configuration(live(other))


def test_server_without_gateway_has_no_sleep_state() -> None:
    one = observe(None, pod(ONE), traffic=None, answers=ANSWERED)
    decision = decide(one)
    assert decision.sleep_state is None
    assert decision.status.gate is None
    assert decision.status.phase is Phase.AWAKE
    assert read_report(decision, "Ready") == ("True", "Serving")


@pytest.mark.parametrize("spec", [{"engine": "nothing"}, {"engineArgs": {"no_such_thing": 1}}])
def test_invalid_spec_is_not_applied_and_keeps_gate_open(spec: dict[str, Any]) -> None:
    before = awake()
    decision = decide(observe(dict(before.status), pod(ONE), spec=spec, deployment=live(ONE)))
    assert not decision.apply
    assert read_report(decision, "Stalled") == ("True", "InvalidSpec")
    assert read_report(decision, "Schedulable") == ("Unknown", "InvalidSpec")
    assert decision.status.gate is not None, "gateways continue"
    assert decision.status.gate.models[0].state is GateState.OPEN


@pytest.mark.parametrize(
    ("more", "reason"),
    [({"foreign": ("Service/chat",)}, Reason.NAME_CONFLICT), ({"refusal": "no"}, Reason.OBJECT_REJECTED)],
)
def test_name_conflict_or_rejection_stalls_server(more: dict[str, Any], reason: Reason) -> None:
    decision = decide(replace(awake(), **more))
    assert read_report(decision, "Stalled") == ("True", reason)


def test_server_recovers_when_name_conflict_is_resolved() -> None:
    taken = replace(awake(), foreign=("Service/chat",))
    free = after(decide(taken), replace(taken, foreign=()))
    assert read_report(decide(free), "Stalled") == ("False", "Reconciled")


def test_state_asleep_fails_gate_and_is_not_ready() -> None:
    one = replace(awake(QUIET), now=NOW + timedelta(hours=2))
    forced = {
        **one.manifest,
        "metadata": {**one.manifest["metadata"], "annotations": {"daybreak.dev/state": "Asleep"}},
    }
    one = replace(one, manifest=forced)
    down = decide(after(decide(one), one))
    assert down.status.phase is Phase.ASLEEP
    assert read_report(down, "Ready") == ("False", "Asleep")
    assert down.sleep_state is not None
    assert down.sleep_state.gate is GateState.FAILED


def test_server_is_not_ready_without_gateway_reports() -> None:
    one = awake()
    silent = replace(one, gateway=replace(one.gateway, traffic={"tiny": Traffic(known=False)}))  # type: ignore[type-var]
    assert read_report(decide(silent), "Ready") == ("False", "GatewayNotReporting")


def test_rejected_pods_of_the_gateway_are_quoted() -> None:
    one = awake()
    view = replace(one.gateway, traffic={"tiny": Traffic(known=False)}, rejected="pods are forbidden: quota")  # type: ignore[type-var]
    decision = decide(replace(one, gateway=view))
    assert read_report(decision, "Ready") == ("False", "GatewayNotReporting")
    assert any("pods are forbidden: quota" in each.message for each in decision.status.conditions)


def test_unreachable_pod_is_reported_after_grace_period() -> None:
    one = awake()
    lost = replace(ASKED, routed=False, unrouted=timedelta(minutes=1))
    apart = replace(one, gateway=replace(one.gateway, traffic={"tiny": lost}))  # type: ignore[type-var]
    assert read_report(decide(apart), "Ready") == ("True", "Waking"), "they are still looking"
    later = replace(apart, now=NOW + timedelta(minutes=2))
    assert read_report(decide(later), "Ready") == ("False", "BackendUnreachable")


def test_first_start_waits_until_a_gateway_finds_its_pods() -> None:
    lost = replace(ASKED, routed=False, unrouted=timedelta(minutes=1))
    first = observe(None, pod(ONE), traffic=lost, answers=ANSWERED)
    opened = decide(first)
    assert read_report(opened, "Ready") == ("Unknown", "Progressing")
    later = decide(after(opened, first, answers=(), now=NOW + timedelta(minutes=2)))
    assert read_report(later, "Ready") == ("Unknown", "BackendUnreachable")
    found = decide(after(opened, first, answers=(), gateway=awake().gateway))
    assert read_report(found, "Ready") == ("True", "Serving")


def test_queued_server_reports_workloads_ahead_and_has_no_pods() -> None:
    one = replace(asleep(), gateway=replace(awake().gateway, traffic={"tiny": HELD}))  # type: ignore[type-var]
    waits = after(decide(one), one, turns={"tiny": Turn(after=("default/other",))})
    decision = decide(waits)
    assert read_report(decision, "Active") == ("False", "WaitingForAccelerators")
    assert decision.status.gate is not None
    assert decision.status.gate.models[0].queued_behind == ["default/other"]
    assert [replicas(waits), replicas(replace(waits, turns={}))] == [0, 1]


def test_first_in_queue_reports_holders_while_its_pod_is_pending() -> None:
    one = replace(asleep(), gateway=replace(awake().gateway, traffic={"tiny": HELD}))  # type: ignore[type-var]
    assert one.subject is not None
    pending = pod(one.subject, ready=False)
    del pending["spec"]["nodeName"]
    first = after(decide(one), one, pods=(pending,))
    assert read_report(decide(replace(first, turns={"tiny": Turn()})), "Active") == ("False", "Starting"), (
        "it may be placed at once"
    )
    waits = decide(replace(first, turns={"tiny": Turn(place=1, held_by=("default/other",))}))
    assert read_report(waits, "Active") == ("False", "WaitingForAccelerators")
    [active] = [each for each in waits.status.conditions if each.type == "Active"]
    assert active.message == "queued for accelerators at position 1; used by default/other"


def test_queued_server_without_held_requests_leaves_queue() -> None:
    one = replace(asleep(), gateway=replace(awake().gateway, traffic={"tiny": HELD}))  # type: ignore[type-var]
    waits = after(
        decide(one), one, turns={"tiny": Turn(after=("default/other",))}, now=NOW + timedelta(hours=3)
    )
    assert decide(waits).status.phase is Phase.WAKING
    gone = replace(HELD, held=0, idle=timedelta(seconds=2))
    left = replace(waits, gateway=replace(waits.gateway, traffic={"tiny": gone}))  # type: ignore[type-var]
    assert decide(left).status.phase is Phase.DRAINING
    assert decide(replace(left, turns={"tiny": Turn()})).status.phase is Phase.WAKING, (
        "no other model needs these accelerators"
    )
    down = after(decide(left), left, turns={"tiny": Turn()})
    assert decide(down).status.phase is Phase.ASLEEP


def test_deleted_server_is_not_applied_and_reports_terminating() -> None:
    one = awake()
    metadata = {**one.manifest["metadata"], "deletionTimestamp": "2026-05-04T12:00:00Z"}
    decision = decide(replace(one, manifest={**one.manifest, "metadata": metadata}))
    assert not decision.apply
    assert read_report(decision, "Ready") == ("False", "Terminating")


def test_status_is_unchanged_if_observation_is_unchanged() -> None:
    for one in (awake(), asleep()):
        once = decide(one)
        assert read_message(decide(after(once, one))) == read_message(once)


def test_drain_without_rollout_ends_after_graceful_shutdown_timeout() -> None:
    spec = {"gracefulShutdownTimeout": "10m"}
    first = observe(None, pod(server(**spec)), traffic=ASKED, answers=ANSWERED, spec=spec)
    one = after(decide(first), first, answers=(), foreign=("Deployment/chat-server",))
    one.manifest["status"].pop("rollout")
    leaves = replace(one, turns={"tiny": Turn(gives_way_to="default/other", preempted=True)})
    begun = decide(leaves)
    assert begun.sleep_state is not None
    assert begun.sleep_state.phase is Phase.DRAINING
    draining = after(begun, leaves, now=NOW + timedelta(minutes=9))
    draining.manifest["status"].pop("rollout", None)
    still = decide(draining)
    assert still.sleep_state is not None
    assert still.sleep_state.phase is Phase.DRAINING
    assert still.requeue_after == timedelta(minutes=1)
    gone = decide(replace(draining, now=NOW + timedelta(minutes=10)))
    assert gone.sleep_state is not None
    assert gone.sleep_state.phase is Phase.ASLEEP
