"""How a workload with one gate is, read off what is seen: what every kind shares, and what it says itself."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

from daybreak.api.common import names
from daybreak.api.common.conditions import ConditionType, Reason, Said
from daybreak.api.common.unstructured import condition, text
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.protocol import Protocol
from daybreak.api.gates.sleep import SleepDepth
from daybreak.gates.sleep_policy import node_wait, overdue, told_to_clients
from daybreak.gates.sleep_state import SleepState
from daybreak.problems.no_node_fits import no_node_fits
from daybreak.problems.problem import Problem, lasting
from daybreak.problems.serve_problems import worst
from daybreak.ray.views.accelerator_pods import no_room_since
from daybreak.ray.views.ray_pods import HEAD, PodView, accelerators, pod_views
from daybreak.scheduling.replica_size import accelerators_awake
from daybreak.workloads import wake_steps
from daybreak.workloads.asking import Asking
from daybreak.workloads.assessed import Timeline
from daybreak.workloads.assessment import Assessment
from daybreak.workloads.observed import OneGate
from daybreak.workloads.subject import Subject

S = TypeVar("S", bound=OneGate[Any])
T = TypeVar("T", bound=Subject)


def address(protocol: Protocol, name: str, namespace: str) -> str:
    """Base URL of a client in the cluster, of what speaks this."""
    return (names.url if protocol is Protocol.OPENAI else names.address)(name, namespace)


class View(ABC, Generic[S, T]):
    """What is seen, with what follows from it.

    Args:
        seen: What is seen.
        subject: The object of ours.
        blocked: What keeps its spec from being applied; None: nothing.
    """

    noun: str
    """What answers, in a person's words."""
    kind: str
    """The object's kind."""
    fits: str
    """What of it stands on nodes, in a person's words."""
    reached = "its pods"
    """What gateways send requests to."""

    def __init__(self, seen: S, subject: T, blocked: Problem | None = None) -> None:
        self.seen = seen
        self.subject = subject
        self.blocked = blocked

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
    def drain(self) -> timedelta:
        """How long requests in progress may take at the end of its pods."""

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
    def stalled(self) -> Problem | None:
        """What a person has to act on; None: nothing."""
        stalled = self.problem if self.problem is not None and self.problem.stalled else None
        return self.blocked or stalled

    def assess(self) -> dict[str, Assessment]:
        """Return what is known of the model behind its gate, by the gate's name."""
        workload, stalled = self.subject.workload, self.stalled
        found = Assessment(
            answering=self.answering,
            drain=self.drain,
            failed="" if self.answering or stalled is None else told_to_clients([stalled.message]),
            updating=self.updating,
            hindered=self.problem is not None,
            has_room=self.has_room,
            lacks_room=self.no_room,
            gpus=self.gpus,
            gpus_awake=sum(accelerators_awake(workload, model) for model in workload.models),
        )
        return {self.seen.gate_name: found}

    def sleeps(self, states: Mapping[str, SleepState]) -> bool:
        """Return whether its pods are given back from here on; `states` are what was decided."""
        state = states.get(self.seen.gate_name)
        return state is not None and state.asleep is not None

    def asking(self) -> Asking:
        """Return whether its model is to be asked for an answer."""
        return Asking((self.seen.gate_name,) if self.ask else ())

    def timeline(self) -> Timeline:
        """Return the steps of a wake."""
        return lambda _: partial(wake_steps.of_pods, self.waking_pods)

    @property
    def waking_pods(self) -> Sequence[PodView]:
        """Pods whose steps are those of a wake."""
        return [pod for pod in self.current_pods if pod.counts]

    @property
    def to_act_on(self) -> Sequence[Problem]:
        """What a person has to act on."""
        return [self.stalled] if self.stalled is not None else []

    @property
    def answerer(self) -> str:
        """What answers, with its verb."""
        return f"its {self.noun} answers"

    def answers(self, gates: Collection[str]) -> Said:
        """Return whether it answers, whatever the gateway does."""
        if self.answering:
            return "True", Reason.SERVING, f"the {self.noun} answers at {self.url}"
        if self.problem is not None:
            return "False", self.problem.reason, self.problem.message
        if self.silent:
            return "False", Reason.PROBE_FAILED, self.silent
        standing = condition(self.seen.status, ConditionType.READY)
        if self.ask and standing.get("reason") == Reason.PROBE_FAILED:
            # It is being asked again; until it says something else this is true.
            return "False", Reason.PROBE_FAILED, str(standing.get("message"))
        return "Unknown", Reason.PROGRESSING, self.doing

    def active(self, states: Mapping[str, SleepState]) -> Said:
        """Return whether it holds pods; `states` are what was decided.

        A pod uses nothing before it is on a node, and a Ray head uses nothing that is scarce: it counts only
        if no other pod is expected.
        """
        state, waits = states.get(self.seen.gate_name), self.in_line
        there = [pod for pod in self.pods if pod.counts]
        others = any(pod.role != HEAD for pod in there)
        head_stays = waits or others or (state is not None and state.asleep is SleepDepth.WORKERS)
        if any(pod.placed and not (head_stays and pod.role == HEAD) for pod in there):
            return "True", Reason.AWAKE, "its pods are there"
        if state is not None and state.asleep is not None:
            said = "of its pods only the Ray head is there" if there else "it has no pod"
            return "False", Reason.ASLEEP, f"{said}; a request wakes it"
        if waits:
            return "False", Reason.WAITING_FOR_ACCELERATORS, self.doing
        said = "its pods wait for a node" if others else "no pod is there yet"
        return "False", Reason.STARTING, said

    def progress(self, ready: Said) -> Said:
        """Return what is on its way, by what it answers and by its pods."""
        why = self.problem.message if self.problem is not None else ""
        if ready[0] != "True":
            return "True", Reason.PROGRESSING, ready[2]
        if self.updating:
            said = "other pods take the place of those that run"
            return "True", Reason.UPDATING, f"{said}: {why}" if why else said
        if self.missing:
            return "True", Reason.PROGRESSING, f"{self.missing}, {why}" if why else self.missing
        return "False", Reason.RECONCILED, "everything is as the spec says"

    def told(self, found: Iterable[Problem | None]) -> Problem | None:
        """Of these problems, and of what fits on no node, the one that is told."""
        misfit = self._no_node_fits()
        if misfit is not None:
            # The scheduler's own words say the same, without numbers.
            others = (each for each in found if each is None or each.reason is not Reason.UNSCHEDULABLE)
            found = [*others, misfit]
        stalled = condition(self.seen.status, ConditionType.STALLED)
        standing = text(stalled.get("reason")) if stalled.get("status") == "True" else ""
        return lasting(worst(found), standing)

    def _no_node_fits(self) -> Problem | None:
        """What of it fits on no node, until it answers."""
        misfits = self.seen.misfits
        if not misfits or self.answering:
            return None
        said = "; ".join(misfit.message for misfit in misfits)
        return no_node_fits(said, self.kind, waking=node_wait(self.seen.gate, self.seen.now) is not None)

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
        stuck = no_room_since(self.pods) is not None or bool(self.seen.own_turn.after)
        return self.wakes_from_sleep and not self.has_room and stuck

    @property
    def has_room(self) -> bool:
        """Whether one of its pods has found room; a Ray head takes none that is scarce."""
        return any(pod.placed and pod.role != HEAD for pod in self.current_pods)

    @property
    def queued(self) -> bool:
        """Whether it makes no pods, since others come before it where accelerators are scarce."""
        return bool(self.seen.own_turn.after) and self._waking

    @property
    def in_line(self) -> bool:
        """Whether it waits for accelerators that others hold, or want before it: `queued`, or as the first
        one, whose pods the scheduler has found no room for."""
        return self.queued or (bool(self.seen.own_turn.place) and self._waking and not self.has_room)

    @property
    def _waking(self) -> bool:
        state = self.seen.sleep_state
        return state is not None and state.phase is Phase.WAKING and state.gate is GateState.CLOSED
