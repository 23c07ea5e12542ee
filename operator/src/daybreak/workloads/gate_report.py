"""The status of a workload's gates, of its sleep and of its accelerators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from daybreak.api.common.unstructured import parse_time, text, written
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import GateBackend, GateStatus, ModelGate, Phase, WakeStatus
from daybreak.api.gates.savings_status import SavingsStatus
from daybreak.api.gates.sleep import SleepDepth
from daybreak.gates import idle_policy, sleep_policy
from daybreak.gates.ledger import Accelerators, count, savings_before
from daybreak.gates.room import room_status, yielded_to
from daybreak.gates.sleep_state import SleepState
from daybreak.gates.wake_history import wake_history
from daybreak.scheduling.claim import Turn
from daybreak.workloads.assessed import Timeline
from daybreak.workloads.assessment import Assessment
from daybreak.workloads.observed import Observed


@dataclass(frozen=True)
class Gates:
    """The gates of a workload after a decision.

    Attributes:
        seen: The observation.
        assessed: Assessment of the model behind each gate, by the gate's name.
        states: Decided sleep state of each gate. Empty without a gateway.
        wakes: Wake history of each gate, after this decision.
    """

    observed: Observed[Any]
    assessed: Mapping[str, Assessment]
    states: Mapping[str, SleepState]
    wakes: Mapping[str, WakeStatus | None]

    def status(
        self,
        backends: Sequence[GateBackend],
        adapters: Mapping[str, Sequence[str]] | None = None,
        displaced: Sequence[ModelGate] = (),
    ) -> GateStatus | None:
        """Return the part of the status that gateways read, or None without a gateway.

        Args:
            backends: Targets of requests.
            adapters: Names of the available LoRA adapters, by gate.
            displaced: Gates of models that are no longer in the spec.
        """
        observed = self.observed
        if observed.gateway is None or observed.subject is None or not self.states:
            return None
        gates = [self._gate(gate, (adapters or {}).get(gate, ())) for gate in self.states]
        return GateStatus(
            port=observed.gateway.port,
            protocol=observed.subject.protocol,
            backends=list(backends),
            models=[*gates, *displaced],
        )

    def savings(self) -> SavingsStatus | None:
        """Return the accelerator-seconds, or None without accelerators or without a gateway."""
        if not self.states:
            return None
        waited_for = sum(self.observed.turn(gate).waited_for for gate in self.states)
        before, now = (
            savings_before(self.observed.status),
            replace(self.accelerators(), waited_for=waited_for),
        )
        return None if before is None and now == Accelerators() else count(before, now, self.observed.now)

    def accelerators(self) -> Accelerators:
        """Return the accelerators that the models hold now, and those that they released by sleep."""
        held = waking = given_back = 0
        for gate, state in self.states.items():
            found = self.assessed[gate]
            if state.asleep is not None and state.phase is not Phase.REPLACING:
                held += found.gpus  # its pods are terminating
                given_back += max(0, found.gpus_awake - found.gpus)
            elif state.gate is GateState.OPEN:
                held += found.gpus
            else:
                waking += found.gpus
        return Accelerators(held, waking, given_back)

    def access(self) -> Literal["Open", "ApiKeys"] | None:
        """Return which clients the gateway admits, or None without a gateway."""
        access = self.observed.subject.spec.access if self.observed.subject is not None else None
        if not self.states:
            return None
        return "ApiKeys" if access is not None and access.api_keys else "Open"

    def phase_transition_time(self, phase: Phase) -> str:
        """Return the time at which the workload entered a phase."""
        before = self.observed.status
        since = parse_time(text(before.get("phaseTransitionTime"))) if before.get("phase") == phase else None
        return written(since or self.observed.now)

    def _gate(self, gate: str, adapters: Sequence[str]) -> ModelGate:
        observed, state, before, turn = (
            self.observed,
            self.states[gate],
            self.observed.gates.get(gate),
            self.observed.turn(gate),
        )
        assert observed.gateway is not None and observed.subject is not None  # noqa: S101, PT018 - checked by the caller
        traffic, wake = observed.gateway.of(gate), self.wakes[gate]
        looked = idle_policy.ModelTraffic(traffic, wake, observed.now)
        sleep, was = observed.subject.sleeps[gate], observed.sleep_states[gate]
        has_room = self.assessed[gate].has_room
        return sleep_policy.model_gate(
            gate,
            state,
            observed.subject.spec.hold,
            wake,
            adapters,
            after=_after(turn, state),
            idle=idle_policy.idle_status(before, sleep, was, state, looked),
            room=room_status(before, state, turn, traffic, has_room=has_room, now=observed.now),
            yielded_to=yielded_to(before, state, turn),
        )


def gates_of(
    observed: Observed[Any],
    assessed: Mapping[str, Assessment],
    states: Mapping[str, SleepState],
    timeline: Timeline,
) -> Gates:
    """Return the gates after a decision, with their wake histories.

    Args:
        observed: The observation.
        assessed: Assessment of the model behind each gate, by the gate's name.
        states: Decided sleep state of each gate.
        timeline: Returns the steps of a wake.
    """
    wakes = {}
    for gate, state in states.items():
        before, was = observed.gates.get(gate), observed.sleep_states[gate]
        if was.asleep is not None:
            # While another model is awake the Ray cluster stays, whatever depth this one has reached.
            whole = observed.asleep is SleepDepth.CLUSTER
            was = replace(was, asleep=SleepDepth.CLUSTER if whole else SleepDepth.WORKERS)
        history = before.wake if before is not None else None
        wakes[gate] = wake_history(history, was, state, observed.now, timeline(gate))
    return Gates(observed, assessed, states, wakes)


def _after(turn: Turn, state: SleepState) -> tuple[str, ...]:
    """Return the workloads ahead of a waking model, or of a sleeping one that waits for its next turn."""
    if state.asleep is not None and turn.gives_way_to:
        return (turn.gives_way_to,)
    return turn.after if state.phase is Phase.WAKING and state.asleep is None else ()
