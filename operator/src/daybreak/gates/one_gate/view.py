"""How a workload with one gate is, read off what is seen: what every kind shares, and what it says itself."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

from daybreak.api.common import names
from daybreak.api.gates.gate_status import GateState, Phase
from daybreak.api.gates.protocol import Protocol
from daybreak.controller.conditions import Made
from daybreak.gates.one_gate.observed import Observed
from daybreak.gates.one_gate.subject import Subject
from daybreak.gates.sleep_policy import overdue
from daybreak.problems.problem import Problem
from daybreak.ray.views.accelerator_pods import no_room_since
from daybreak.ray.views.ray_pods import HEAD, PodView, accelerators, pod_views

S = TypeVar("S", bound=Observed[Any])
T = TypeVar("T", bound=Subject)


def address(protocol: Protocol, name: str, namespace: str) -> str:
    """Base URL of a client in the cluster, of what speaks this."""
    return (names.url if protocol is Protocol.OPENAI else names.address)(name, namespace)


class View(ABC, Generic[S, T]):
    """What is seen, with what follows from it.

    Args:
        seen: What is seen.
        subject: The object of ours.
    """

    noun: str
    """What answers, in a person's words."""

    def __init__(self, seen: S, subject: T) -> None:
        self.seen = seen
        self.subject = subject

    @property
    @abstractmethod
    def url(self) -> str:
        """Where it is asked inside the cluster."""

    @property
    @abstractmethod
    def made(self) -> bool:
        """Whether something was applied before, which goes on."""

    @property
    @abstractmethod
    def answering(self) -> bool:
        """Whether requests get an answer."""

    @property
    @abstractmethod
    def ask(self) -> bool:
        """Whether it is to be asked for an answer."""

    @property
    @abstractmethod
    def silent(self) -> str:
        """What it said in place of an answer; empty: nothing."""

    @property
    @abstractmethod
    def updating(self) -> bool:
        """Whether a change is on its way to pods that are awake."""

    @property
    @abstractmethod
    def problem(self) -> Problem | None:
        """What keeps it from being ready, what somebody must act on first."""

    @property
    @abstractmethod
    def doing(self) -> str:
        """What is waited for."""

    @property
    @abstractmethod
    def missing(self) -> str:
        """What it has not of what it should have, though it answers; empty: nothing."""

    @property
    @abstractmethod
    def current_pods(self) -> Sequence[PodView]:
        """Its pods that are what they should be, ready or not."""

    @property
    def schedulable(self) -> Made | None:
        """Whether it fits on the nodes; None: the kind does not say."""
        return None

    @cached_property
    def pods(self) -> Sequence[PodView]:
        """All of its pods."""
        return pod_views(self.seen.pods)

    @property
    def gpus(self) -> int:
        """Accelerators that its pods hold."""
        resources = dict.fromkeys(model.accelerator.resource for model in self.subject.workload.models)
        return sum(accelerators(pod, resource) for resource in resources for pod in self.pods)

    @property
    def wakes_from_sleep(self) -> bool:
        """Whether it is on the way up from sleep, not for the first time."""
        gate = self.seen.gate
        return gate is not None and gate.wake is not None and gate.wake.under_way

    @property
    def overdue(self) -> bool:
        """Whether it has been on the way up for longer than requests are held."""
        gate = self.seen.gate
        return gate is not None and overdue(gate, self.seen.now)

    @property
    def no_room(self) -> bool:
        """Whether it wakes from sleep, and has not found room for one pod."""
        stuck = no_room_since(self.pods) is not None or bool(self.seen.turn.after)
        return self.wakes_from_sleep and not self.has_room and stuck

    @property
    def has_room(self) -> bool:
        """Whether one of its pods has found room; a Ray head takes none that is scarce."""
        return any(pod.placed and pod.role != HEAD for pod in self.current_pods)

    @property
    def queued(self) -> bool:
        """Whether it makes no pods, since others come before it where accelerators are scarce."""
        state = self.seen.sleep_state
        waking = state is not None and state.phase is Phase.WAKING and state.gate is GateState.CLOSED
        return bool(self.seen.turn.after) and waking
