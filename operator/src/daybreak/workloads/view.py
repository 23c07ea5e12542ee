"""Assessment of a workload with one gate: the common part, and the methods that each kind implements."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

from daybreak.api.common import names
from daybreak.api.common.conditions import ConditionType, Reason, ShortCondition
from daybreak.api.common.unstructured import condition, text
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.protocol import Protocol
from daybreak.api.gates.sleep import SleepDepth
from daybreak.gates.sleep_policy import client_reason, node_wait, overdue
from daybreak.gates.sleep_state import SleepState
from daybreak.problems.no_node_fits import no_node_fits
from daybreak.problems.problem import Problem, lasting
from daybreak.problems.serve_problems import worst
from daybreak.ray.views.accelerator_pods import no_room_since
from daybreak.ray.views.ray_pods import HEAD, PodView, accelerators, pod_views
from daybreak.scheduling.replica_size import accelerators_awake
from daybreak.workloads import wake_steps
from daybreak.workloads.assessed import Timeline
from daybreak.workloads.assessment import Assessment
from daybreak.workloads.observed import OneGate
from daybreak.workloads.probing import Probing
from daybreak.workloads.subject import Subject

S = TypeVar("S", bound=OneGate[Any])
T = TypeVar("T", bound=Subject)


def address(protocol: Protocol, name: str, namespace: str) -> str:
    """Return the base URL of a service inside the cluster, for its protocol."""
    return (names.url if protocol is Protocol.OPENAI else names.address)(name, namespace)


class View(ABC, Generic[S, T]):
    """An observation with the conclusions drawn from it.

    Args:
        observed: The observation.
        subject: The Daybreak object.
        blocked: The problem that prevents the operator from applying the spec, or None.
    """

    noun: str
    """Noun for messages: the part that answers."""
    kind: str
    """Kind of the object."""
    fits: str
    """Noun phrase for messages: the parts of the workload that need nodes."""
    reached = "its pods"
    """Noun phrase for messages: the target of the gateways' requests."""

    def __init__(self, observed: S, subject: T, blocked: Problem | None = None) -> None:
        self.observed = observed
        self.subject = subject
        self.blocked = blocked

    @property
    @abstractmethod
    def url(self) -> str:
        """URL of the workload inside the cluster."""

    @property
    @abstractmethod
    def made(self) -> bool:
        """True if an earlier spec was applied and its objects continue to run."""

    @property
    @abstractmethod
    def answering(self) -> bool:
        """True if requests are answered."""

    @property
    @abstractmethod
    def ask(self) -> bool:
        """True if the operator must probe the workload."""

    @property
    @abstractmethod
    def silent(self) -> str:
        """Error that the workload returned in place of an answer. Empty if there is none."""

    @property
    @abstractmethod
    def updating(self) -> bool:
        """True while a change is being rolled out to pods that are awake."""

    @property
    @abstractmethod
    def drain(self) -> timedelta:
        """Maximum time for requests in progress when the pods end."""

    @property
    @abstractmethod
    def problem(self) -> Problem | None:
        """The problem that prevents readiness, with precedence for one that requires action."""

    @property
    @abstractmethod
    def doing(self) -> str:
        """Next step that the workload waits for, for messages."""

    @property
    @abstractmethod
    def missing(self) -> str:
        """Missing parts of a workload that answers. Empty if nothing is missing."""

    @property
    @abstractmethod
    def current_pods(self) -> Sequence[PodView]:
        """Pods that match the desired state, ready or not."""

    @property
    def stalled(self) -> Problem | None:
        """The problem that requires action, or None."""
        stalled = self.problem if self.problem is not None and self.problem.stalled else None
        return self.blocked or stalled

    def assess(self) -> dict[str, Assessment]:
        """Return the assessment of the model behind the gate, by the gate's name."""
        workload, stalled = self.subject.workload, self.stalled
        found = Assessment(
            answering=self.answering,
            drain=self.drain,
            failed="" if self.answering or stalled is None else client_reason([stalled.message]),
            updating=self.updating,
            hindered=self.problem is not None,
            has_room=self.has_room,
            lacks_room=self.no_room,
            gpus=self.gpus,
            gpus_awake=sum(accelerators_awake(workload, model) for model in workload.models),
        )
        return {self.observed.gate_name: found}

    def sleeps(self, states: Mapping[str, SleepState]) -> bool:
        """Return True if the decision releases the pods; `states` are the decided states."""
        state = states.get(self.observed.gate_name)
        return state is not None and state.asleep is not None

    def asking(self) -> Probing:
        """Return the model to probe, if any."""
        return Probing((self.observed.gate_name,) if self.ask else ())

    def timeline(self) -> Timeline:
        """Return the function that reads the steps of a wake."""
        return lambda _: partial(wake_steps.of_pods, self.waking_pods)

    @property
    def waking_pods(self) -> Sequence[PodView]:
        """Pods whose steps count as steps of a wake."""
        return [pod for pod in self.current_pods if pod.counts]

    @property
    def to_act_on(self) -> Sequence[Problem]:
        """Problems that require action."""
        return [self.stalled] if self.stalled is not None else []

    @property
    def answerer(self) -> str:
        """Subject and verb for messages: the part that answers."""
        return f"its {self.noun} answers"

    def answers(self, gates: Collection[str]) -> ShortCondition:
        """Return whether the workload answers, regardless of the gateway's state."""
        if self.answering:
            return "True", Reason.SERVING, f"the {self.noun} answers at {self.url}"
        if self.problem is not None:
            return "False", self.problem.reason, self.problem.message
        if self.silent:
            return "False", Reason.PROBE_FAILED, self.silent
        standing = condition(self.observed.status, ConditionType.READY)
        if self.ask and standing.get("reason") == Reason.PROBE_FAILED:
            # The next probe is in progress: the previous result holds until its response.
            return "False", Reason.PROBE_FAILED, str(standing.get("message"))
        return "Unknown", Reason.PROGRESSING, self.doing

    def active(self, states: Mapping[str, SleepState]) -> ShortCondition:
        """Return whether the workload holds pods; `states` are the decided states.

        A pod uses nothing before it is on a node, and a Ray head uses nothing scarce: the head counts only if
        no other pod is expected.
        """
        state, waits = states.get(self.observed.gate_name), self.in_line
        there = [pod for pod in self.pods if pod.counts]
        others = any(pod.role != HEAD for pod in there)
        head_stays = waits or others or (state is not None and state.asleep is SleepDepth.WORKERS)
        if any(pod.placed and not (head_stays and pod.role == HEAD) for pod in there):
            return "True", Reason.AWAKE, "its pods are there"
        if state is not None and state.asleep is not None:
            message = "of its pods only the Ray head is there" if there else "it has no pod"
            return "False", Reason.ASLEEP, f"{message}; a request wakes it"
        if waits:
            return "False", Reason.WAITING_FOR_ACCELERATORS, self.doing
        message = "its pods wait for a node" if others else "no pod is there yet"
        return "False", Reason.STARTING, message

    def progress(self, ready: ShortCondition) -> ShortCondition:
        """Return the change in progress, from the workload's answers and pods."""
        why = self.problem.message if self.problem is not None else ""
        if ready[0] != "True":
            return "True", Reason.PROGRESSING, ready[2]
        if self.updating:
            message = "other pods take the place of those that run"
            return "True", Reason.UPDATING, f"{message}: {why}" if why else message
        if self.missing:
            return "True", Reason.PROGRESSING, f"{self.missing}, {why}" if why else self.missing
        return "False", Reason.RECONCILED, "all objects match the spec"

    def reported(self, found: Iterable[Problem | None]) -> Problem | None:
        """Return the most important problem of these and of the pods that fit on no node, or None."""
        misfit = self._no_node_fits()
        if misfit is not None:
            # The scheduler's message says the same, without numbers.
            others = (each for each in found if each is None or each.reason is not Reason.UNSCHEDULABLE)
            found = [*others, misfit]
        stalled = condition(self.observed.status, ConditionType.STALLED)
        standing = text(stalled.get("reason")) if stalled.get("status") == "True" else ""
        return lasting(worst(found), standing)

    def _no_node_fits(self) -> Problem | None:
        """Return the problem of pods that fit on no node, or None once the workload answers."""
        misfits = self.observed.misfits
        if not misfits or self.answering:
            return None
        message = "; ".join(misfit.message for misfit in misfits)
        return no_node_fits(
            message, self.kind, waking=node_wait(self.observed.gate, self.observed.now) is not None
        )

    @cached_property
    def pods(self) -> Sequence[PodView]:
        """All pods of the workload."""
        return pod_views(self.observed.pods)

    @property
    def gpus(self) -> int:
        """Accelerators that the pods hold."""
        resources = dict.fromkeys(model.accelerator.resource for model in self.subject.workload.models)
        return sum(accelerators(pod, resource) for resource in resources for pod in self.pods)

    @property
    def wakes_from_sleep(self) -> bool:
        """True if the workload wakes from sleep, not for the first time."""
        gate = self.observed.gate
        return gate is not None and gate.wake is not None and gate.wake.under_way

    @property
    def overdue(self) -> bool:
        """True if the wake has lasted longer than requests are held."""
        gate = self.observed.gate
        return gate is not None and overdue(gate, self.observed.now)

    @property
    def no_room(self) -> bool:
        """True if the workload wakes from sleep and none of its pods has been scheduled."""
        stuck = no_room_since(self.pods) is not None or bool(self.observed.own_turn.after)
        return self.wakes_from_sleep and not self.has_room and stuck

    @property
    def has_room(self) -> bool:
        """True if one of the pods has been scheduled. A Ray head does not count: it uses nothing scarce."""
        return any(pod.placed and pod.role != HEAD for pod in self.current_pods)

    @property
    def queued(self) -> bool:
        """True if the workload creates no pods because others are ahead in the accelerator queue."""
        return bool(self.observed.own_turn.after) and self._waking

    @property
    def in_line(self) -> bool:
        """True if the workload waits for accelerators that others hold or will get first.

        It is `queued`, or first in the accelerator queue with pods that the scheduler cannot place.
        """
        return self.queued or (bool(self.observed.own_turn.place) and self._waking and not self.has_room)

    @property
    def _waking(self) -> bool:
        state = self.observed.sleep_state
        return state is not None and state.phase is Phase.WAKING and state.gate is GateState.CLOSED
