"""What holds of sleep and wake, whatever happens, in whatever order, and however late it is told."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import KeptAwake, Phase
from daybreak.api.gates.sleep import Sleep, SleepDepth, State, Yield
from daybreak.gates.state_machine import (
    FORCED_ASLEEP,
    UPDATE_PATIENCE,
    Health,
    SleepPolicy,
    SleepState,
    decide,
    step,
    yields_at,
)
from daybreak.gates.traffic import Traffic
from tests.budget import examples
from tests.property.sleepers import BEGIN, BROKEN, Gateway, Sleeper

ROUNDS = 8
"""More than any course needs to come to rest when nothing happens any more."""
AFTER_IDLE = timedelta(minutes=10)
EPSILON = timedelta(milliseconds=1)

sleeps = st.sampled_from(
    [
        None,
        Sleep(after_idle="10m"),
        Sleep(after_idle="10m", depth=SleepDepth.CLUSTER),
        Sleep(after_idle="10m", cluster_after_idle="1h"),
    ]
)
wishes = st.builds(
    SleepPolicy,
    sleep=sleeps,
    forced=st.sampled_from([None, None, None, *State]),
    window=st.sampled_from([False, False, True]),
)
numbers = st.integers(0, 2)
pauses = st.sampled_from([timedelta(milliseconds=300), timedelta(seconds=20), AFTER_IDLE, timedelta(hours=1)])


class SleepAndWake(RuleBasedStateMachine):
    """Things happen in any order; `calm` says that whatever has happened, all comes right."""

    @initialize(sleep=sleeps, gateways=st.integers(1, 3))
    def begin(self, sleep: Sleep | None, gateways: int) -> None:
        self.it = Sleeper(SleepPolicy(sleep), [Gateway(1, GateState.CLOSED, BEGIN) for _ in range(gateways)])

    def _some(self, number: int) -> int:
        return number % len(self.it.gateways)

    @rule(number=numbers)
    def a_request_arrives(self, number: int) -> None:
        self.it.gateways[self._some(number)].arrive(self.it.now)

    @rule(number=numbers)
    def a_request_ends(self, number: int) -> None:
        self.it.gateways[self._some(number)].end(self.it.now)

    @rule(number=numbers)
    def a_held_one_is_released(self, number: int) -> None:
        self.it.gateways[self._some(number)].release()

    @rule(number=numbers)
    def a_held_client_leaves(self, number: int) -> None:
        self.it.gateways[self._some(number)].leave(self.it.now)

    @rule(number=numbers, late=st.integers(0, 2))
    def a_gateway_learns_of_the_gate(self, number: int, late: int) -> None:
        self.it.carry_out(self._some(number), late=late)

    @rule(number=numbers)
    def a_gateway_restarts(self, number: int) -> None:
        self.it.restart_gateway(self._some(number))

    @rule(number=numbers)
    def the_operator_hears_a_gateway(self, number: int) -> None:
        self.it.hear(self._some(number))

    @rule(number=numbers)
    def the_operator_loses_a_gateway(self, number: int) -> None:
        self.it.heard.pop(self._some(number), None)

    @rule()
    def the_operator_hears_all_and_looks(self) -> None:
        for number in range(len(self.it.gateways)):
            self.it.hear(number)
        self.the_operator_looks()

    @rule()
    def the_operator_restarts(self) -> None:
        self.it.restart_operator()

    @rule()
    def the_operator_looks(self) -> None:
        before = self.it.look()
        after, traffic = self.it.sleep_state, self.it.traffic
        assert after.epoch >= before.epoch
        told_before, told = (before.gate, before.reason), (after.gate, after.reason)
        assert (after.epoch == before.epoch) == (told == told_before), "an epoch for each change of the gate"
        if told[0] is GateState.OPEN and told_before[0] is not GateState.OPEN:
            assert self.it.up, "the gate opens when an answer comes, not before"
        forced = self.it.sleep_policy.must_sleep
        waits = forced or self.holds_in_its_sleep(before)
        assert waits or not traffic.held or after.asleep is None, "who is held wakes it at once"
        assert forced or after.reason in ("", BROKEN)

    def holds_in_its_sleep(self, before: SleepState) -> bool:
        """Return True if held requests may wait for something other than their wake."""
        return False

    @rule(wanted=st.booleans())
    def another_one_wants_its_accelerators(self, wanted: bool) -> None:
        self.it.wanted = wanted

    @rule(pause=pauses)
    def time_passes(self, pause: timedelta) -> None:
        self.it.now += pause

    @rule(pause=pauses)
    def time_passes_and_all_look(self, pause: timedelta) -> None:
        self.it.now += pause
        for _ in range(3):
            for number in range(len(self.it.gateways)):
                self.it.carry_out(number)
            self.the_operator_hears_all_and_looks()

    @rule(late=st.none() | numbers, asked=st.booleans(), silent=st.booleans())
    def it_falls_idle(self, late: int | None, asked: bool, silent: bool) -> None:
        """Everybody has gone, and the gate closes; one gateway hears of it late, or not and falls silent."""
        it = self.it
        it.broken = False
        for _ in range(3):
            it.round()
        for number, gateway in enumerate(it.gateways):
            while gateway.in_flight:
                gateway.end(it.now)
            it.hear(number)
        it.now += AFTER_IDLE
        self.the_operator_looks()
        if late is None:
            return
        if asked:
            self.a_request_arrives(late)
        for number in range(len(it.gateways)):
            if silent and number == self._some(late):
                self.the_operator_loses_a_gateway(number)
            else:
                it.carry_out(number)
                it.hear(number)
        self.the_operator_looks()

    @rule(number=numbers)
    def a_person_puts_it_to_sleep_while_somebody_is_served(self, number: int) -> None:
        it = self.it
        it.sleep_policy, it.broken = replace(it.sleep_policy, forced=State.AWAKE), False
        for _ in range(3):
            it.round()
        self.a_request_arrives(number)
        it.sleep_policy = replace(it.sleep_policy, forced=State.ASLEEP)
        for _ in range(3):
            it.round()
            self.nothing_is_taken_from_who_is_served()

    @precondition(lambda self: self.it.sleep_state.asleep is None)
    @rule(up=st.booleans(), broken=st.booleans(), updating=st.booleans())
    def the_models_change(self, up: bool, broken: bool, updating: bool) -> None:
        self.it.up, self.it.broken, self.it.updating = up, broken, updating

    @rule(sleep_policy=wishes)
    def a_person_changes_his_mind(self, sleep_policy: SleepPolicy) -> None:
        self.it.sleep_policy = sleep_policy

    @rule()
    def calm(self) -> None:
        """Nothing happens any more but what was begun: it comes to rest, and in the right place."""
        it = self.it
        for _ in range(ROUNDS):
            it.round()
        assert it.round() == it.sleep_state, "it has come to rest"
        forced, held = it.sleep_policy.must_sleep, sum(gateway.held for gateway in it.gateways)
        assert not held, "who was held has got through, or was refused"
        assert forced == (it.sleep_state.reason == FORCED_ASLEEP)
        if forced:
            wanted = Phase.DRAINING if it.traffic.in_flight else Phase.ASLEEP
            assert it.sleep_state.phase is wanted, "it sleeps, or waits for a stream and nothing else"
        elif it.sleep_state.asleep is None and it.sleep_state.phase is not Phase.DRAINING:
            assert it.sleep_state.gate is (GateState.OPEN if it.up or not it.broken else GateState.FAILED)
        if not forced and not it.sleep_policy.may_sleep:
            assert it.sleep_state.phase in (Phase.AWAKE, Phase.FAILED), "what must not sleep is up"

    @rule()
    def nobody_asks_for_long(self) -> None:
        """What may sleep does so; what was woken only to be looked at as well."""
        it = self.it
        it.broken = False
        self.calm()
        for gateway in it.gateways:
            while gateway.in_flight:
                gateway.end(it.now)
        it.now += AFTER_IDLE
        self.calm()
        if it.sleep_policy.may_sleep or it.sleep_policy.must_sleep:
            assert it.sleep_state.phase is Phase.ASLEEP
            assert it.sleep_state.asleep is not None

    @rule(hindered=st.booleans())
    def an_update_hangs_and_nobody_asks(self, hindered: bool) -> None:
        """It keeps nobody awake for ever, and without room for no longer than idleness does."""
        it = self.it
        it.broken = False
        self.calm()
        for gateway in it.gateways:
            while gateway.in_flight:
                gateway.end(it.now)
        for pause in (timedelta(0), AFTER_IDLE if hindered else UPDATE_PATIENCE):
            it.now += pause
            for _ in range(3):
                it.updating, it.hindered = it.sleep_state.asleep is None, hindered
                for number in range(len(it.gateways)):
                    it.carry_out(number)
                self.the_operator_hears_all_and_looks()
        it.updating = it.hindered = False
        if it.sleep_policy.may_sleep or it.sleep_policy.must_sleep:
            assert it.sleep_state.asleep is not None

    @invariant()
    def nothing_is_taken_from_who_is_served(self) -> None:
        if not hasattr(self, "it") or self.it.sleep_state.asleep is None:
            return
        assert not any(gateway.in_flight for gateway in self.it.gateways), "asleep, but somebody is served"
        assert all(gateway.gate is not GateState.OPEN for gateway in self.it.gateways)
        assert self.it.sleep_state.gate is not GateState.OPEN

    def teardown(self) -> None:
        if hasattr(self, "it"):
            self.nobody_asks_for_long()


TestSleepAndWake = SleepAndWake.TestCase
TestSleepAndWake.settings = settings(max_examples=examples(120), stateful_step_count=30)

turn_sleeps = st.sampled_from(
    [
        Sleep(after_idle="10m", yields=Yield.TURN),
        Sleep(after_idle="10m", yields=Yield.TURN, min_awake="1m"),
        Sleep(after_idle="10m", depth=SleepDepth.CLUSTER, yields=Yield.TURN),
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
    """The same with models that take turns, and with pods that are replaced. Streams have any time to end."""

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
        return replacing or (it.wanted and it.sleep_policy.takes_turns)

    @rule(replaces=st.booleans())
    def its_pods_are_replaced(self, replaces: bool) -> None:
        self.it.replaces = replaces

    @rule(sleep_policy=turn_wishes)
    def a_person_changes_his_mind(self, sleep_policy: SleepPolicy) -> None:
        self.it.sleep_policy = sleep_policy

    @rule()
    def its_turn_ends_while_it_is_asked(self) -> None:
        """It falls asleep with its held requests, and wakes for them when nobody else waits."""
        it = self.it
        it.broken = it.replaces = it.wanted = it.hindered = False
        sleep = Sleep(after_idle="10m", yields=Yield.TURN, min_awake="1m")
        it.sleep_policy = SleepPolicy(sleep)
        for _ in range(3):
            it.round()
        it.gateways[0].arrive(it.now)
        for _ in range(3):
            it.round()
        assert it.sleep_state.gate is GateState.OPEN
        it.now += timedelta(minutes=1)
        it.wanted = True
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
        it.wanted = False
        self.calm()

    @rule()
    def all_of_its_pods_are_replaced(self) -> None:
        """The gate closes, its pods go, and others come; held requests are answered by those."""
        it = self.it
        it.broken = it.wanted = it.hindered = False
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
        self.it.wanted = self.it.replaces = False
        SleepAndWake.calm(self)


TestTurnsAndReplacements = TurnsAndReplacements.TestCase
TestTurnsAndReplacements.settings = settings(max_examples=examples(120), stateful_step_count=30)

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


def at_rest(
    sleep_state: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health
) -> SleepState:
    """Where it comes to rest when everything stays as it is, even the clock."""
    for _ in range(ROUNDS):
        sleep_state = step(sleep_state, sleep_policy, traffic, health, BEGIN)
    return sleep_state


@given(courses, wishes, traffics, backends)
@settings(max_examples=examples(1000))
def test_one_step(before: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health) -> None:
    after = step(before, sleep_policy, traffic, health, BEGIN)
    if after.gate is GateState.OPEN and before.gate is not GateState.OPEN:
        assert health.answers
    if before.asleep is None and after.asleep is not None:
        assert before.phase is Phase.DRAINING
        assert before.gate is after.gate is not GateState.OPEN, "it was closed before, not just now"
        assert traffic.known
        assert traffic.acknowledged >= before.epoch
        assert traffic.held == traffic.in_flight == 0
    if traffic.held and not sleep_policy.must_sleep:
        assert after.asleep is None
        assert after.phase is not Phase.DRAINING


@given(courses, wishes, traffics, backends)
@settings(max_examples=examples(1000))
def test_comes_to_rest_whatever_the_status_says(
    sleep_state: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health
) -> None:
    rest = at_rest(sleep_state, sleep_policy, traffic, health)
    assert step(rest, sleep_policy, traffic, health, BEGIN) == rest
    assert sleep_state.epoch <= rest.epoch <= sleep_state.epoch + 3


@given(courses, wishes, traffics, backends)
@settings(max_examples=examples(1000))
def test_time_alone_changes_nothing_before_it_is_looked_at_again(
    sleep_state: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health
) -> None:
    rest = at_rest(sleep_state, sleep_policy, traffic, health)
    pause = decide(rest, sleep_policy, traffic, health, BEGIN).look_again

    def after(span: timedelta) -> SleepState:
        return step(rest, sleep_policy, replace(traffic, idle=traffic.idle + span), health, BEGIN + span)

    if pause is None:
        assert after(timedelta(days=30)) == rest
    else:
        assert pause > timedelta(0), "it would look again and again"
        assert after(pause - EPSILON) == rest


@given(turn_courses, turn_wishes, traffics, turn_backends)
@settings(max_examples=examples(2000))
def test_one_step_of_turns_and_replacements(
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
def test_turns_and_replacements_come_to_rest(
    before: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health
) -> None:
    rest = at_rest(before, sleep_policy, traffic, health)
    assert step(rest, sleep_policy, traffic, health, BEGIN) == rest


@given(turn_courses, turn_wishes, traffics, turn_backends, spans)
@settings(max_examples=examples(2000))
def test_it_yields_exactly_when_it_says_so(
    before: SleepState, sleep_policy: SleepPolicy, traffic: Traffic, health: Health, span: timedelta
) -> None:
    """A candidate that would stay awake blocks those that would yield."""
    alone = replace(health, gives_way=False, preempted=False, replaces=False)
    state = step(replace(before, gate=GateState.OPEN, asleep=None), sleep_policy, traffic, alone, BEGIN)
    now, later = BEGIN + span, replace(traffic, idle=traffic.idle + span)
    asked = step(state, sleep_policy, later, replace(alone, gives_way=True), now)
    yields = yields_at(state, sleep_policy, later, now)
    if yields is not None and yields <= now:
        assert (asked.phase, asked.gate) == (Phase.DRAINING, GateState.CLOSED)
    elif state.gate is GateState.OPEN:
        assert asked == step(state, sleep_policy, later, alone, now), "it is not asked for anything"
