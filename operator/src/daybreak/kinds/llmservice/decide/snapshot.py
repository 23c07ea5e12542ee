"""A snapshot of a service: everything observed, read once, for every check that follows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.common.unstructured import condition, mapping, mappings, text, whole
from daybreak.api.gates.gate_status import GateState, GateStatus
from daybreak.api.llmservice.definition import LLMService
from daybreak.gates.sleep_policy import kept_gate, node_wait, overdue, sleep_state_before, wakes_before
from daybreak.gates.state_machine import SleepState
from daybreak.kinds.llmservice.decide.caches import CacheView, caches
from daybreak.kinds.llmservice.observe.observed import Answer, Observed, Reports
from daybreak.problems.problem import Problem, lasting
from daybreak.problems.serve_problems import service_problem
from daybreak.ray.views.ray_pods import HEAD, PodView, pod_views
from daybreak.ray.views.ray_service_view import RayView, ray_view
from daybreak.scheduling.fit import Misfit


@dataclass(frozen=True)
class Before:
    """What the status has said so far: the only memory."""

    models: Mapping[str, Mapping[str, Any]]
    """The models by name."""
    head: Mapping[str, Any]
    """What stood in the way of the head; empty when nothing did."""
    ready: Mapping[str, Any]
    """The condition Ready; empty when there is none."""
    standing: str
    """Reason for which the service is stalled at its present generation; empty when it is not."""
    current: bool
    """Whether it speaks of the present generation of the spec."""
    sleep_state: SleepState | None
    """What was decided of sleep and wake; None: nothing yet."""
    gate: GateStatus | None
    """The gate as gateways have read it; None: there was none."""
    node_wait: timedelta | None
    """How much longer a wake may wait for nodes that went away with sleep; None: nothing wakes, or it has
    waited long enough."""
    overdue: bool
    """Whether a wake has lasted longer than requests are held."""

    def silence(self, model: str) -> str:
        """What came when the model was asked last; empty when an answer came, or none was asked for."""
        said = self.models.get(model, {})
        return text(said.get("message")) if said.get("reason") == Reason.NOT_ANSWERING else ""


@dataclass(frozen=True)
class Snapshot:
    """What is seen of a service with a spec that can be read."""

    service: LLMService
    ray: RayView
    pods: list[PodView]
    problem: Problem | None
    """What keeps the whole Ray cluster from coming up."""
    misfits: Mapping[str | None, Misfit]
    """What fits on no node, by model; the head's is under None."""
    before: Before
    answers: Mapping[str, Answer]
    caches: Mapping[str, CacheView]
    """The copies of weights in claims, by model."""
    reports: Reports
    """What replicas say of their adapters."""
    now: datetime

    @property
    def filling(self) -> Sequence[CacheView]:
        """The copies that are not complete: until they are, the RayService stays as it is, unless asleep."""
        return [view for view in self.caches.values() if not view.complete]

    @property
    def asleep(self) -> bool:
        """Whether the objects are at present those of a sleeping service."""
        return self.before.sleep_state is not None and self.before.sleep_state.asleep is not None

    @property
    def served(self) -> Sequence[str]:
        """Names of the models that requests were let through to, in the Ray cluster that is active still."""
        gate = self.before.gate
        if gate is None or gate.state is not GateState.OPEN or (gate.cluster or "") != self.ray.active:
            return ()
        return tuple(self.before.models) if gate.models is None else gate.models

    @property
    def waking(self) -> bool:
        """Whether requests are held until the models answer."""
        sleep_state = self.before.sleep_state
        return (
            sleep_state is not None and sleep_state.asleep is None and sleep_state.gate is not GateState.OPEN
        )


def snapshot_of(
    seen: Observed, service: LLMService, misfits: tuple[Misfit, ...], answers: tuple[Answer, ...]
) -> Snapshot:
    """Read what is seen."""
    ray = ray_view(seen.ray_service)
    pods = pod_views(seen.pods)
    before = said_before(seen)
    problem = lasting(service_problem(ray, seen.ray_clusters, pods), before.standing)
    return Snapshot(
        service=service,
        ray=ray,
        pods=pods,
        problem=problem or _head_still_crashing(ray, pods, before),
        misfits={misfit.model: misfit for misfit in misfits},
        before=before,
        answers={answer.model: answer for answer in answers},
        caches={view.model: view for view in caches(seen, service)},
        reports=seen.reports,
        now=seen.now,
    )


def said_before(seen: Observed) -> Before:
    """Read the status as it stands."""
    metadata, status = mapping(seen.manifest.get("metadata")), seen.status
    stalled = condition(status, ConditionType.STALLED)
    stands = stalled.get("status") == "True" and whole(stalled.get("observedGeneration")) == whole(
        metadata.get("generation")
    )
    gate = kept_gate(status) if seen.gateway is not None else None
    wakes = wakes_before(status)
    return Before(
        models={text(item.get("name")): item for item in mappings(status.get("models"))},
        head=mapping(status.get("head")),
        ready=condition(status, ConditionType.READY),
        standing=text(stalled.get("reason")) if stands else "",
        current=whole(status.get("observedGeneration")) == whole(metadata.get("generation")),
        sleep_state=_sleep_state(seen),
        gate=gate,
        node_wait=node_wait(wakes, gate, seen.now),
        overdue=overdue(wakes, gate, seen.now),
    )


def _sleep_state(seen: Observed) -> SleepState | None:
    """What was decided of sleep and wake, or that it begins asleep; None: nothing yet, or never."""
    if seen.gateway is None:
        return None
    before = sleep_state_before(seen.status, seen.now)
    return seen.sleep_state if before is None and seen.sleep_state.asleep is not None else before


def _head_still_crashing(ray: RayView, pods: list[PodView], before: Before) -> Problem | None:
    """What ended the last head, as long as the next one has not become ready.

    A head that has ended is not restarted but replaced, so nothing of its end can be seen any more.
    """
    if before.standing != Reason.CONTAINER_CRASHING or before.head.get("reason") != before.standing:
        return None
    if any(pod.role == HEAD and pod.cluster == ray.coming and pod.ready for pod in pods):
        return None
    return Problem(Reason.CONTAINER_CRASHING, text(before.head.get("message")), stalled=True, of_head=True)
