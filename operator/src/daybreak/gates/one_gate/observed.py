"""Everything that one reconcile of a workload with one gate decides on."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, TypeVar

from daybreak.api.common.unstructured import Manifest, mapping
from daybreak.api.gates.gate_status import ModelGate
from daybreak.controller.asking.answer import Answer
from daybreak.gates.one_gate.subject import Subject
from daybreak.gates.sleep_policy import gates_before, sleep_policy, sleep_state_of
from daybreak.gates.state_machine import SleepPolicy, SleepState, start
from daybreak.gates.traffic import Traffic
from daybreak.scheduling.claim import NO_MATTER, Turn
from daybreak.scheduling.fit import Misfit
from daybreak.scheduling.nodes import Node
from daybreak.scheduling.room import Booked
from daybreak.scheduling.schedulable import check_off

T = TypeVar("T", bound=Subject)


@dataclass(frozen=True)
class GatewayView:
    """The gateway of the namespace, as far as it concerns the workload."""

    port: int
    """The gateway's port for it."""
    traffic: Traffic
    """What gateways say of the requests to it."""
    clusters: frozenset[str] | None = None
    """The Ray clusters that gateways send requests to, or have requests at; None: that is not known."""
    rejected: str = ""
    """Why the API server rejects pods of the gateway; empty if it does not."""


@dataclass(frozen=True)
class Observed(ABC, Generic[T]):
    """What is seen of a workload at one moment."""

    manifest: Manifest
    subject: T | None
    """None: its spec has not the form of the API."""
    problems: tuple[str, ...]
    """What keeps the spec from being built."""
    now: datetime
    gateway: GatewayView | None = None
    """None: it is reached without a gateway, and never sleeps."""
    pods: tuple[Manifest, ...] = ()
    nodes: tuple[Node, ...] | None = None
    """None: the operator may not see nodes."""
    booked: Booked | None = None
    """What pods hold on each node; None: nobody has asked."""
    turn: Turn = NO_MATTER
    """Whose turn it is, where accelerators are scarce."""
    answers: tuple[Answer, ...] = ()
    """Answers asked for in this reconcile."""
    foreign: tuple[str, ...] = ()
    """Names that somebody else has taken, as `Kind/name`."""
    refusal: str = ""
    """What the API server has refused."""

    @property
    def status(self) -> Mapping[str, Any]:
        """The status before."""
        return mapping(self.manifest.get("status"))

    @cached_property
    def gate(self) -> ModelGate | None:
        """The gate as the status says it; None: it does not, or there is no gateway."""
        if self.subject is None or self.gateway is None:
            return None
        return gates_before(self.status).get(self.subject.gate_name)

    @cached_property
    def sleep_policy(self) -> SleepPolicy:
        """What the person wants at this time."""
        spec = self.subject.spec if self.subject is not None else None
        sleep, state = (spec.sleep, spec.state) if spec is not None else (None, None)
        return sleep_policy(self.manifest, sleep, state, self.gate, self.now)

    @cached_property
    def sleep_state(self) -> SleepState | None:
        """What was decided of its sleep, or the beginning; None without a gateway."""
        if self.subject is None or self.gateway is None:
            return None
        if self.gate is not None:
            return sleep_state_of(self.gate, self.now)
        # Another model in place of one that sleeps sleeps as well.
        others = [sleep_state_of(gate, self.now) for gate in gates_before(self.status).values()]
        return start(self.now, self.sleep_policy, others[0].asleep if others else None)

    @property
    def fit_checked(self) -> bool:
        """Whether the nodes are compared with what its pods need, as far as they are known."""
        return self.subject is not None and not self.problems and not check_off(self.manifest)

    @cached_property
    def misfits(self) -> tuple[Misfit, ...] | None:
        """What of it fits on no node; None: nobody has looked."""
        if self.subject is None or self.nodes is None or not self.fit_checked:
            return None
        return self.misfits_of(self.subject, self.nodes)

    @abstractmethod
    def misfits_of(self, subject: T, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
        """What of an object of the kind fits on no node."""

    @property
    def asleep(self) -> bool:
        """Whether its pods are given back."""
        return self.sleep_state is not None and self.sleep_state.asleep is not None
