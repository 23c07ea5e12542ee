"""What one reconcile observes of a workload: the only input of its decisions."""

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
    """The gateway of a namespace, as far as it concerns one workload."""

    port: int
    """The gateway's port for the workload."""
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    """Requests to each gate, as the gateways report them."""
    clusters: frozenset[str] | None = None
    """Ray clusters that gateways send requests to, or that still have requests; None: unknown."""
    leaving: bool = False
    """Whether gateways are switched off: this one ends when no workload is reached through it."""
    past: bool = False
    """Whether the workload's address already leads past the gateway, which finishes its streams."""
    rejected: str = ""
    """The API server's reason if it rejects pods of the gateway, else empty."""

    def of(self, gate: str) -> Traffic:
        """Return the requests to one gate."""
        return self.traffic.get(gate, UNKNOWN)


@dataclass(frozen=True)
class Observed(ABC, Generic[T]):
    """A workload and its surroundings at one moment."""

    manifest: Manifest
    """The object, status included."""
    subject: T | None
    """The object that is built; None: its spec has not the form of the API."""
    problems: tuple[str, ...]
    """What is wrong with the spec, a sentence with the field's path each; empty if it can be built."""
    now: datetime
    gateway: GatewayView | None = None
    """None: clients reach the workload without a gateway, and it never sleeps."""
    pods: tuple[Manifest, ...] = ()
    nodes: tuple[Node, ...] | None = None
    """None: the operator may not read nodes."""
    booked: Booked | None = None
    """What pods hold on each node; None: not observed."""
    turns: Mapping[str, Turn] = field(default_factory=dict)
    """The turn of each gate where accelerators are scarce."""
    answers: tuple[Answer, ...] = ()
    """Responses to the operator's probes."""
    foreign: tuple[str, ...] = ()
    """Objects of another owner that have a name which the workload needs, as `Kind/name`."""
    refusal: str = ""
    """The API server's message if it rejected an object of the workload, else empty."""

    @property
    def status(self) -> Mapping[str, Any]:
        """The status before this reconcile."""
        return mapping(self.manifest.get("status"))

    @cached_property
    def gates(self) -> Mapping[str, ModelGate]:
        """The gates of the status, by name; empty without a gateway."""
        return gates_before(self.status) if self.gateway is not None else {}

    @cached_property
    def sleep_policies(self) -> Mapping[str, SleepPolicy]:
        """When each gate may sleep, by its name."""
        if self.subject is None:
            return {}
        if self.gateway is not None and self.gateway.leaving:
            # Nothing sleeps without a gateway, and there soon is none.
            return dict.fromkeys(self.subject.sleeps, SleepPolicy(None, forced=State.AWAKE))
        return {gate: self.policy(gate, sleep) for gate, sleep in self.subject.sleeps.items()}

    def policy(self, gate: str, sleep: Sleep | None) -> SleepPolicy:
        """Return when one gate may sleep at this time."""
        state = self.subject.spec.state if self.subject is not None else None
        return sleep_policy(self.manifest, sleep, state, self.gates.get(gate), self.now)

    @cached_property
    def sleep_states(self) -> Mapping[str, SleepState]:
        """The last decision on each gate's sleep, or its first state; empty without a gateway.

        A model that joins a workload of which every model sleeps, sleeps too.
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
        """What the whole workload has given back; None: nothing, or the pods of some gates only."""
        return depth(self.sleep_states.values())

    def turn(self, gate: str) -> Turn:
        """Return the turn of one gate."""
        return self.turns.get(gate, NO_MATTER)

    @property
    def history(self) -> History | None:
        """The revisions of the object; None: the kind keeps none, or they are unknown."""
        return None

    @property
    def target(self) -> T | None:
        """The object as it is asked for; None: that cannot be read."""
        return self.subject

    @property
    def changes_revision(self) -> bool:
        """Whether another revision is asked for than the one that is built."""
        return self.history is not None and self.history.wanted != self.history.built

    @property
    def fit_check_off(self) -> bool:
        """Whether the object's annotation says that nodes come on demand."""
        return check_off(self.manifest)

    @property
    def fit_checked(self) -> bool:
        """Whether the nodes are compared with what the pods need."""
        return self.subject is not None and not self.problems and not self.fit_check_off

    @cached_property
    def misfits(self) -> tuple[Misfit, ...] | None:
        """What fits on no node; None: not checked."""
        if self.subject is None or self.nodes is None or not self.fit_checked:
            return None
        return self.misfits_of(self.subject, self.nodes)

    @abstractmethod
    def misfits_of(self, subject: T, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
        """Return what of an object fits on no node."""

    @abstractmethod
    def claimants(self) -> Iterable[Claimant]:
        """Return the pods of each gate that competes for accelerators or cores."""


class OneGate(Observed[T]):
    """A workload with one gate."""

    @property
    def gate_name(self) -> str:
        """Name of the gate; empty if the spec cannot be read."""
        return next(iter(self.subject.sleeps)) if self.subject is not None else ""

    @property
    def gate(self) -> ModelGate | None:
        """The gate of the status; None: there is none, or no gateway."""
        return self.gates.get(self.gate_name)

    @property
    def sleep_policy(self) -> SleepPolicy:
        """When the gate may sleep."""
        return self.sleep_policies[self.gate_name]

    @property
    def sleep_state(self) -> SleepState | None:
        """The last decision on the gate's sleep, or its first state; None without a gateway."""
        return self.sleep_states.get(self.gate_name)

    @property
    def own_turn(self) -> Turn:
        """The gate's turn."""
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
