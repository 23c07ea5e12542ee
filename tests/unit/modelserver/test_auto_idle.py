"""A ModelServer that determines its idle time automatically."""

from dataclasses import replace
from datetime import timedelta

from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.idle_status import IdleStatus
from daybreak.gates.traffic import Pause, Traffic
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.workloads.observed import GatewayView
from tests.unit.modelserver.decision import Decision, decide
from tests.unit.modelserver.servers import NOW, manifest, observe, pod, server
from tests.unit.modelserver.test_decision import ANSWERED, after, read_message

AUTO = {"sleep": {"afterIdle": "Auto"}}
MINUTE = timedelta(minutes=1)


def quiet(idle: timedelta) -> GatewayView:
    """Return gateways that have received no request for this time."""
    requested = Traffic(known=True, idle=idle, requested=idle, acknowledged=10**15, routed=True)
    return GatewayView(20000, {"tiny": requested})


def idle(decision: Decision) -> IdleStatus:
    """Return the status of the model's pauses."""
    assert decision.status.gate is not None
    found = decision.status.gate.models[0].idle
    assert found is not None
    return found


def awake() -> Observed:
    """Return a server that has answered a probe."""
    first = observe(None, pod(server()), answers=ANSWERED, spec=AUTO)
    return after(decide(first), first, answers=())


def test_server_counts_pauses_and_sleeps_after_learned_idle_time() -> None:
    one = awake()
    assert idle(decide(one)).after_idle == "15m"
    ended = Traffic(known=True, in_flight=1, acknowledged=10**15, requested=timedelta(0), routed=True)
    requested = replace(ended, pause=Pause(5 * MINUTE, timedelta(0)))
    counted = decide(replace(one, gateway=GatewayView(20000, {"tiny": requested})))
    assert sum(idle(counted).pauses) == 1

    later = replace(one, now=NOW + timedelta(hours=1), gateway=quiet(2 * MINUTE))
    assert decide(later).status.phase is Phase.AWAKE
    status = read_message(decide(one))
    status["gate"]["models"][0]["idle"] = {"pauses": [0.0] * 16 + [20.0], "afterIdle": "15m"}
    wake = {"depth": "Workers", "startTime": "2026-01-01T00:00:00Z", "seconds": 90, "p50Seconds": 90}
    status["gate"]["models"][0]["wake"] = wake
    knows = replace(later, manifest={**manifest(**AUTO), "status": status})
    learns = decide(knows)
    assert (learns.status.phase, idle(learns).after_idle) == (Phase.AWAKE, "1m")
    assert learns.requeue_after == timedelta(0), "this decision used the previous idle time"

    status = read_message(decide(one))
    status["gate"]["models"][0]["idle"] |= {"afterIdle": "1m"}
    learned = replace(later, manifest={**manifest(**AUTO), "status": status})
    asleep = decide(learned)
    assert asleep.status.phase is Phase.DRAINING
    assert idle(asleep).start_time is not None


def test_invalid_spec_keeps_recorded_pauses() -> None:
    one = awake()
    broken = observe(read_message(decide(one)), spec={"sleep": {"afterIdle": "soon"}})
    kept = decide(broken).status.gate
    assert kept is not None
    assert kept.models[0].idle == idle(decide(one))
