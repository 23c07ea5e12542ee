"""The state machine of sleep and wake under rules that Hypothesis calls in any order."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.sleep import Sleep, SleepDepth, State
from daybreak.gates.sleep_state import SleepPolicy, SleepState
from daybreak.gates.state_machine import FORCED_ASLEEP, UPDATE_PATIENCE
from tests.property.sleepers import BEGIN, BROKEN, Gateway, Sleeper

ROUNDS = 8
"""Number of rounds that every course needs at most to come to rest after the last event."""
AFTER_IDLE = timedelta(minutes=10)
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
        self.it.receive(self._some(number))

    @rule(number=numbers)
    def the_operator_loses_a_gateway(self, number: int) -> None:
        self.it.received.pop(self._some(number), None)

    @rule()
    def the_operator_hears_all_and_looks(self) -> None:
        for number in range(len(self.it.gateways)):
            self.it.receive(number)
        self.the_operator_looks()

    @rule()
    def the_operator_restarts(self) -> None:
        self.it.restart_operator()

    @rule()
    def the_operator_looks(self) -> None:
        before = self.it.look()
        after, traffic = self.it.sleep_state, self.it.traffic
        assert after.epoch >= before.epoch
        told_before, reported = (before.gate, before.reason), (after.gate, after.reason)
        assert (after.epoch == before.epoch) == (reported == told_before), (
            "an epoch for each change of the gate"
        )
        if reported[0] is GateState.OPEN and told_before[0] is not GateState.OPEN:
            assert self.it.up, "the gate opens when an answer comes, not before"
        forced = self.it.sleep_policy.must_sleep
        waits = forced or self.holds_in_its_sleep(before)
        assert waits or not traffic.held or after.asleep is None, "who is held wakes it at once"
        assert forced or after.reason in ("", BROKEN)

    def holds_in_its_sleep(self, before: SleepState) -> bool:
        """Return True if held requests may wait for something other than their wake."""
        return False

    @rule(desired=st.booleans())
    def another_one_wants_its_accelerators(self, desired: bool) -> None:
        self.it.desired = desired

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

    @rule(late=st.none() | numbers, requested=st.booleans(), silent=st.booleans())
    def it_falls_idle(self, late: int | None, requested: bool, silent: bool) -> None:
        """All clients leave, and the gate closes; one gateway learns of it late, or falls silent instead."""
        it = self.it
        it.broken = False
        for _ in range(3):
            it.round()
        for number, gateway in enumerate(it.gateways):
            while gateway.in_flight:
                gateway.end(it.now)
            it.receive(number)
        it.now += AFTER_IDLE
        self.the_operator_looks()
        if late is None:
            return
        if requested:
            self.a_request_arrives(late)
        for number in range(len(it.gateways)):
            if silent and number == self._some(late):
                self.the_operator_loses_a_gateway(number)
            else:
                it.carry_out(number)
                it.receive(number)
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
        """Let only begun actions finish: the service comes to rest, in the right place."""
        it = self.it
        for _ in range(ROUNDS):
            it.round()
        assert it.round() == it.sleep_state, "it has come to rest"
        forced, held = it.sleep_policy.must_sleep, sum(gateway.held for gateway in it.gateways)
        assert not held, "who was held has got through, or was refused"
        assert forced == (it.sleep_state.reason == FORCED_ASLEEP)
        if forced:
            desired = Phase.DRAINING if it.traffic.in_flight else Phase.ASLEEP
            assert it.sleep_state.phase is desired, "it sleeps, or waits for a stream and nothing else"
        elif it.sleep_state.asleep is None and it.sleep_state.phase is not Phase.DRAINING:
            assert it.sleep_state.gate is (GateState.OPEN if it.up or not it.broken else GateState.FAILED)
        if not forced and not it.sleep_policy.may_sleep:
            assert it.sleep_state.phase in (Phase.AWAKE, Phase.FAILED), "what must not sleep is up"

    @rule()
    def nobody_asks_for_long(self) -> None:
        """Leave the service idle: models that may sleep do so, also those woken only for a check."""
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
        """A hanging update keeps no service awake for ever, and without capacity only as long as idleness."""
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
