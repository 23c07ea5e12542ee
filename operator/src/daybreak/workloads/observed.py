"""Observation of a workload in one reconcile: the only input of its decisions."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, TypeVar

from daybreak.api.common.unstructured import Manifest, mapping
from daybreak.api.gates.gate_status import ModelGate
from daybreak.api.gates.sleep import Sleep, SleepDepth, State
from daybreak.gates.sleep_policy import depth, gates_before, sleep_policy, sleep_state_of
from daybreak.gates.sleep_state import SleepPolicy, SleepState
from daybreak.gates.state_machine import start
from daybreak.gates.traffic import UNKNOWN, Traffic
from daybreak.ray.views.ray_pods import pod_views
from daybreak.rollouts.history import History
from daybreak.scheduling.claim import NO_MATTER, Turn
from daybreak.scheduling.fit import Misfit
from daybreak.scheduling.nodes import Node
from daybreak.scheduling.room import Booked
from daybreak.scheduling.schedulable import check_off
from daybreak.workloads.answer import Answer
from daybreak.workloads.claimant import Claimant, greediest
from daybreak.workloads.subject import Subject

T = TypeVar("T", bound=Subject)


@dataclass(frozen=True)
class GatewayView:
    """The gateway of a namespace, with the facts about one workload."""

    port: int
    """Port of the gateway for the workload."""
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    """Requests to each gate, as the gateways report them."""
    clusters: frozenset[str] | None = None
    """Ray clusters that receive or still process requests from gateways, or None if unknown."""
    leaving: bool = False
    """True if gateways are disabled: this one ends when no workload is reached through it."""
    past: bool = False
    """True if the workload's address already bypasses the gateway, which finishes its streams."""
    rejected: str = ""
    """The API server's reason if it rejects pods of the gateway. Empty otherwise."""

    def of(self, gate: str) -> Traffic:
        """Return the requests to one gate."""
        return self.traffic.get(gate, UNKNOWN)


@dataclass(frozen=True)
class Observed(ABC, Generic[T]):
    """A workload and its environment at one time."""

    manifest: Manifest
    """The object, including its status."""
    subject: T | None
    """The object as the operator builds it, or None if its spec does not match the API schema."""
    problems: tuple[str, ...]
    """Errors of the spec, each a sentence with the path of the field. Empty for a valid spec."""
    now: datetime
    gateway: GatewayView | None = None
    """The gateway, or None if clients reach the workload without one. The workload then never sleeps."""
    pods: tuple[Manifest, ...] = ()
    nodes: tuple[Node, ...] | None = None
    """The nodes, or None if the operator may not read nodes."""
    booked: Booked | None = None
    """Requests of pods on each node, or None if not observed."""
    turns: Mapping[str, Turn] = field(default_factory=dict)
    """Position of each gate in the accelerator queue, by the gate's name."""
    answers: tuple[Answer, ...] = ()
    """Responses to the operator's probes."""
    foreign: tuple[str, ...] = ()
    """Objects of another owner that have a name which the workload needs, as `Kind/name`."""
    refusal: str = ""
    """The API server's message if it rejected an object of the workload. Empty otherwise."""

    @property
    def status(self) -> Mapping[str, Any]:
        """The status before this reconcile."""
        return mapping(self.manifest.get("status"))

    @cached_property
    def gates(self) -> Mapping[str, ModelGate]:
        """The gates of the status, by name. Empty without a gateway."""
        return gates_before(self.status) if self.gateway is not None else {}

    @cached_property
    def sleep_policies(self) -> Mapping[str, SleepPolicy]:
        """Rules for the sleep of each gate, by the gate's name."""
        if self.subject is None:
            return {}
        if self.gateway is not None and self.gateway.leaving:
            # Without a gateway no model sleeps, and this one ends soon.
            return dict.fromkeys(self.subject.sleeps, SleepPolicy(None, forced=State.AWAKE))
        return {gate: self.policy(gate, sleep) for gate, sleep in self.subject.sleeps.items()}

    def policy(self, gate: str, sleep: Sleep | None) -> SleepPolicy:
        """Return the rules that currently apply to the sleep of one gate."""
        state = self.subject.spec.state if self.subject is not None else None
        return sleep_policy(self.manifest, sleep, state, self.gates.get(gate), self.now)

    @cached_property
    def sleep_states(self) -> Mapping[str, SleepState]:
        """The last decision on each gate's sleep, or its first state. Empty without a gateway.

        A model that joins a workload whose models all sleep starts asleep.
        """
        if self.subject is None or self.gateway is None:
            return {}
        before = {name: sleep_state_of(gate, self.now) for name, gate in self.gates.items()}
        together, states = depth(before.values()), {}
        for gate, policy in self.sleep_policies.items():
            alone = policy.depth if self.subject.starts_asleep(gate) else None
            states[gate] = before.get(gate) or start(self.now, policy, together or alone)
        return states

    @cached_property
    def asleep(self) -> SleepDepth | None:
        """Depth to which the whole workload sleeps, or None if not all of its gates sleep."""
        return depth(self.sleep_states.values())

    def turn(self, gate: str) -> Turn:
        """Return the position of one gate in the accelerator queue."""
        return self.turns.get(gate, NO_MATTER)

    @property
    def history(self) -> History | None:
        """The revisions of the object, or None if the kind keeps none or they are unknown."""
        return None

    @property
    def target(self) -> T | None:
        """The object as the spec requests it, or None if the spec cannot be read."""
        return self.subject

    @property
    def changes_revision(self) -> bool:
        """True if the spec requests another revision than the built one."""
        return self.history is not None and self.history.desired != self.history.built

    @property
    def fit_check_off(self) -> bool:
        """True if the object's annotation states that nodes are added on demand."""
        return check_off(self.manifest)

    @property
    def fit_checked(self) -> bool:
        """True if the operator compares the nodes with the requests of the pods."""
        return self.subject is not None and not self.problems and not self.fit_check_off

    @cached_property
    def misfits(self) -> tuple[Misfit, ...] | None:
        """Pods that fit on no node, or None if not checked."""
        if self.subject is None or self.nodes is None or not self.fit_checked:
            return None
        return self.misfits_of(self.subject, self.nodes)

    @abstractmethod
    def misfits_of(self, subject: T, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
        """Return the pods of an object that fit on no node."""

    @abstractmethod
    def claimants(self) -> Iterable[Claimant]:
        """Return the pods of each gate that competes for accelerators or CPUs."""


class OneGate(Observed[T]):
    """A workload with one gate."""

    @property
    def gate_name(self) -> str:
        """Name of the gate. Empty if the spec cannot be read."""
        return next(iter(self.subject.sleeps)) if self.subject is not None else ""

    @property
    def gate(self) -> ModelGate | None:
        """The gate of the status, or None if there is no gate or no gateway."""
        return self.gates.get(self.gate_name)

    @property
    def sleep_policy(self) -> SleepPolicy:
        """Rules for the sleep of the gate."""
        return self.sleep_policies[self.gate_name]

    @property
    def sleep_state(self) -> SleepState | None:
        """The last decision on the gate's sleep, or its first state, or None without a gateway."""
        return self.sleep_states.get(self.gate_name)

    @property
    def own_turn(self) -> Turn:
        """Position of the gate in the accelerator queue."""
        return self.turn(self.gate_name)

    @property
    def traffic(self) -> Traffic:
        """Requests to the gate, as the gateways report them."""
        return self.gateway.of(self.gate_name) if self.gateway is not None else UNKNOWN

    def claimants(self) -> Iterable[Claimant]:
        """Return the pods of the gate."""
        model = greediest(self.subject.workload.models) if self.subject is not None else None
        pods = [pod for pod in pod_views(self.pods) if not pod.over]
        return [] if model is None else [Claimant(self.gate_name, model, pods)]
