"""Any input of one step of the state machine of sleep and wake."""

from datetime import timedelta

from hypothesis import strategies as st

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.sleep import SleepDepth
from daybreak.gates.sleep_state import Health, SleepPolicy, SleepState
from daybreak.gates.state_machine import FORCED_ASLEEP, step
from daybreak.gates.traffic import Traffic
from tests.property.sleep_and_wake import AFTER_IDLE, ROUNDS
from tests.property.sleepers import BEGIN, BROKEN

spans = st.sampled_from(
    [timedelta(0), timedelta(minutes=3), AFTER_IDLE, timedelta(minutes=50), timedelta(days=1)]
)
traffics = st.builds(
    Traffic,
    known=st.sampled_from([True, True, False]),
    held=st.sampled_from([0, 0, 0, 2]),
    in_flight=st.sampled_from([0, 0, 0, 3]),
    idle=spans,
    acknowledged=st.integers(-1, 12),
)
backends = st.builds(
    Health,
    answers=st.booleans(),
    drain=spans,
    failed=st.sampled_from(["", BROKEN]),
    updating=st.booleans(),
    hindered=st.booleans(),
    waits=st.booleans(),
    queues=st.booleans(),
    on_trial=st.booleans(),
)
courses = st.builds(
    SleepState,
    phase=st.sampled_from([Phase.DRAINING, *Phase]),
    since=spans.map(lambda ago: BEGIN - ago),
    asleep=st.sampled_from([None, None, None, *SleepDepth]),
    gate=st.sampled_from([GateState.OPEN, *GateState]),
    epoch=st.integers(0, 10),
    reason=st.sampled_from(["", BROKEN, FORCED_ASLEEP]),
)


def at_rest(
    sleep_state: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health
) -> SleepState:
    """Return the state in which it comes to rest when everything stays as it is, even the clock."""
    for _ in range(ROUNDS):
        sleep_state = step(sleep_state, sleep_policy, traffic, health, BEGIN)
    return sleep_state
