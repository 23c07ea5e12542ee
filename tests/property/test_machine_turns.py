"""Sleep and wake of models that take turns, and of models whose pods are replaced."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import KeptAwake, Phase
from daybreak.api.gates.sleep import Sleep, SleepDepth, State, Yield
from daybreak.gates.sleep_state import Health, SleepPolicy, SleepState
from daybreak.gates.state_machine import step, yields_at
from daybreak.gates.traffic import Traffic
from tests.budget import examples
from tests.property.sleep_and_wake import SleepAndWake, sleeps
from tests.property.sleep_inputs import at_rest, backends, courses, spans, traffics
from tests.property.sleepers import BEGIN, Gateway, Sleeper

turn_sleeps = st.sampled_from(
    [
        Sleep(after_idle="10m", yields=Yield.ALWAYS),
        Sleep(after_idle="10m", yields=Yield.ALWAYS, min_awake="1m"),
        Sleep(after_idle="10m", depth=SleepDepth.CLUSTER, yields=Yield.ALWAYS),
        Sleep(after_idle="10m", yields=Yield.NEVER),
    ]
)
turn_wishes = st.builds(
    SleepPolicy,
    sleep=st.one_of(sleeps, turn_sleeps),
    forced=st.sampled_from([None, None, None, *State]),
    window=st.sampled_from([False, False, True]),
)


class TurnsAndReplacements(SleepAndWake):
    """Models that share accelerators, and pods that are replaced. Streams end at any time."""

    @initialize(sleep=turn_sleeps, gateways=st.integers(1, 3))
    def begin(self, sleep: Sleep | None, gateways: int) -> None:
        self.it = Sleeper(
            SleepPolicy(sleep),
            [Gateway(1, GateState.CLOSED, BEGIN) for _ in range(gateways)],
            drain=timedelta(days=10_000),
        )

    def holds_in_its_sleep(self, before: SleepState) -> bool:
        it = self.it
        replacing = it.replaces or before.phase is Phase.REPLACING
        return replacing or (it.desired and it.sleep_policy.takes_turns)

    @rule(replaces=st.booleans())
    def its_pods_are_replaced(self, replaces: bool) -> None:
        self.it.replaces = replaces

    @rule(sleep_policy=turn_wishes)
    def a_person_changes_his_mind(self, sleep_policy: SleepPolicy) -> None:
        self.it.sleep_policy = sleep_policy

    @rule()
    def its_turn_ends_while_it_is_asked(self) -> None:
        """End its turn under load: the model sleeps with held requests, and wakes when no other one waits."""
        it = self.it
        it.broken = it.replaces = it.desired = it.hindered = False
        sleep = Sleep(after_idle="10m", yields=Yield.ALWAYS, min_awake="1m")
        it.sleep_policy = SleepPolicy(sleep)
        for _ in range(3):
            it.round()
        it.gateways[0].arrive(it.now)
        for _ in range(3):
            it.round()
        assert it.sleep_state.gate is GateState.OPEN
        it.now += timedelta(minutes=1)
        it.desired = True
        it.round()
        assert it.sleep_state.phase is Phase.DRAINING
        for gateway in it.gateways:
            while gateway.in_flight:
                gateway.end(it.now)
        it.round()
        it.gateways[0].arrive(it.now)
        for _ in range(3):
            it.round()
        assert (it.sleep_state.phase, it.gateways[0].held) == (Phase.ASLEEP, 1)
        it.desired = False
        self.calm()

    @rule()
    def all_of_its_pods_are_replaced(self) -> None:
        """The gate closes, old pods terminate and new pods start; held requests are answered by those."""
        it = self.it
        it.broken = it.desired = it.hindered = False
        it.sleep_policy = SleepPolicy(it.sleep_policy.sleep)
        it.replaces = False
        for _ in range(3):
            it.round()
        it.gateways[0].arrive(it.now)
        for _ in range(3):
            it.round()
        it.replaces = True
        it.round()
        assert it.sleep_state.phase is Phase.REPLACING
        assert it.sleep_state.gate is GateState.CLOSED
        for gateway in it.gateways:
            while gateway.in_flight:
                gateway.end(it.now)
        it.round()
        it.gateways[0].arrive(it.now)
        for _ in range(3):
            it.round()
        assert (it.sleep_state.phase, it.sleep_state.asleep) == (Phase.REPLACING, SleepDepth.CLUSTER)
        self.calm()

    @rule()
    def calm(self) -> None:
        self.it.desired = self.it.replaces = False
        SleepAndWake.calm(self)


TestTurnsAndReplacements = TurnsAndReplacements.TestCase
TestTurnsAndReplacements.settings = settings(max_examples=examples(120), stateful_step_count=30)
turn_courses = st.builds(
    lambda course, kept: replace(course, kept_awake=kept), courses, st.sampled_from([None, *KeptAwake])
)
turn_backends = st.builds(
    lambda health, gives_way, preempted, replaces: replace(
        health, gives_way=gives_way, preempted=preempted, replaces=replaces
    ),
    backends,
    gives_way=st.booleans(),
    preempted=st.sampled_from([False, False, True]),
    replaces=st.sampled_from([False, False, True]),
)


@given(turn_courses, turn_wishes, traffics, turn_backends)
@settings(max_examples=examples(2000))
def test_single_step_keeps_yield_and_replacement_invariants(
    before: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health
) -> None:
    after = step(before, sleep_policy, traffic, health, BEGIN)
    forced = sleep_policy.must_sleep
    if after.gate is GateState.OPEN and before.gate is not GateState.OPEN:
        assert health.answers
    if before.asleep is None and after.asleep is not None:
        assert before.gate is after.gate is not GateState.OPEN, "it was closed before, not just now"
        assert traffic.known
        assert traffic.acknowledged >= before.epoch
        cut = health.replaces or health.preempted
        unused = health.replaces and before.phase is Phase.WAKING
        assert not traffic.in_flight or unused or (cut and BEGIN - before.since >= health.drain)
        turn_is_over = health.gives_way and sleep_policy.takes_turns
        assert not traffic.held or forced or cut or turn_is_over
    if not health.replaces:
        assert after.phase is not Phase.REPLACING
    elif before.asleep is None and before.phase is not Phase.DRAINING:
        assert after.phase is Phase.REPLACING
    if health.replaces or health.preempted:
        assert after.gate is not GateState.OPEN


@given(turn_courses, turn_wishes, traffics, turn_backends)
@settings(max_examples=examples(1000))
def test_state_machine_reaches_stable_state_with_yields_and_replacements(
    before: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health
) -> None:
    rest = at_rest(before, sleep_policy, traffic, health)
    assert step(rest, sleep_policy, traffic, health, BEGIN) == rest


@given(turn_courses, turn_wishes, traffics, turn_backends, spans)
@settings(max_examples=examples(2000))
def test_model_yields_exactly_from_reported_time(
    before: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health, span: timedelta
) -> None:
    """A candidate that would stay awake blocks those that would yield."""
    alone = replace(health, gives_way=False, preempted=False, replaces=False)
    state = step(replace(before, gate=GateState.OPEN, asleep=None), sleep_policy, traffic, alone, BEGIN)
    now, later = BEGIN + span, replace(traffic, idle=traffic.idle + span)
    requested = step(state, sleep_policy, later, replace(alone, gives_way=True), now)
    yields = yields_at(state, sleep_policy, later, now)
    if yields is not None and yields <= now:
        assert (requested.phase, requested.gate) == (Phase.DRAINING, GateState.CLOSED)
    elif state.gate is GateState.OPEN:
        assert requested == step(state, sleep_policy, later, alone, now), "it is not asked for anything"
