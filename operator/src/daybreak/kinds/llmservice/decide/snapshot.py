"""Snapshot of a service: the complete observation, parsed once for all following checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.common.unstructured import condition, mapping, mappings, text, whole
from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import ModelGate
from daybreak.api.llmservice.definition import LLMService
from daybreak.gates.sleep_policy import backends_before, node_wait, overdue
from daybreak.gates.sleep_state import SleepState
from daybreak.kinds.llmservice.decide.caches import CacheView, caches
from daybreak.kinds.llmservice.decide.first_cluster import first_cluster
from daybreak.kinds.llmservice.observe.observed import Observed, Reports
from daybreak.problems.problem import Problem, lasting
from daybreak.problems.serve_problems import service_problem
from daybreak.ray.views.ray_pods import HEAD, PodView, pod_views
from daybreak.ray.views.ray_service_view import RayView, ray_view
from daybreak.scheduling.claim import NO_MATTER, Turn
from daybreak.scheduling.fit import Misfit
from daybreak.workloads.answer import Answer


@dataclass(frozen=True)
class Before:
    """Previous status, which is the only persistent state."""

    models: Mapping[str, Mapping[str, Any]]
    """Entries of the models, by name."""
    head: Mapping[str, Any]
    """Problem of the head; empty if there was none."""
    ready: Mapping[str, Any]
    """Condition `Ready`; empty if there is none."""
    standing: str
    """Reason for which the service is stalled at its current generation; empty if it is not."""
    current: bool
    """True if the status describes the current generation of the spec."""
    sleep_states: Mapping[str, SleepState]
    """Decision on the sleep of each model; empty if there is none yet, or never."""
    gates: Mapping[str, ModelGate]
    """Gates as gateways have read them, by model, including those of a previous spec."""
    backends: Sequence[str]
    """Ray clusters that received the requests."""

    def silence(self, model: str) -> str:
        """Return the result of the model's last probe; empty if it was an answer, or without a probe."""
        report = self.models.get(model, {})
        return text(report.get("message")) if report.get("reason") == Reason.PROBE_FAILED else ""


@dataclass(frozen=True)
class Snapshot:
    """Observation of a service with a valid spec."""

    service: LLMService
    ray: RayView
    pods: list[PodView]
    problem: Problem | None
    """Problem that keeps the whole Ray cluster from starting."""
    misfits: Mapping[str | None, Misfit]
    """Pods that fit on no node, by model. The key of the head is None."""
    before: Before
    answers: Mapping[str, Answer]
    caches: Mapping[str, CacheView]
    """Copies of weights in PVCs, by model."""
    reports: Reports
    """Reports of replicas on their adapters."""
    now: datetime

    given_back: frozenset[str]
    """Models whose workers are currently released."""
    first: str
    """Ray cluster that still receives the requests, if KubeRay has switched to a second one in which not
    every model has answered. Empty if requests go to the active cluster."""
    turns: Mapping[str, Turn]
    """Turns of the models in the queue for scarce accelerators."""

    @property
    def filling(self) -> Sequence[CacheView]:
        """Return the incomplete copies."""
        return [view for view in self.caches.values() if not view.complete]

    @property
    def waited_for(self) -> Sequence[CacheView]:
        """Return the incomplete copies that keep the RayService unchanged: sleeping models need none."""
        return [view for view in self.filling if not self.sleeps(view.model)]

    @property
    def asleep(self) -> bool:
        """Return True if the workers of every model are currently released."""
        return all(self.sleeps(model.name) for model in self.service.spec.models)

    def sleeps(self, model: str) -> bool:
        """Return True if the workers of a model are currently released."""
        return model in self.given_back

    def waking(self, model: str) -> bool:
        """Return True if requests to a model are held until it answers."""
        state = self.before.sleep_states.get(model)
        return state is not None and state.asleep is None and state.gate is not GateState.OPEN

    def wakes_from_sleep(self, model: str) -> bool:
        """Return True if a model is waking from sleep, rather than starting for the first time."""
        gate = self.before.gates.get(model)
        return gate is not None and gate.wake is not None and gate.wake.under_way

    def node_wait(self, model: str) -> timedelta | None:
        """Return how much longer a model's wake may wait for nodes that were removed during sleep.

        None is returned if the model does not wake, or has waited long enough.
        """
        return node_wait(self.before.gates.get(model), self.now)

    def overdue(self, model: str) -> bool:
        """Return True if a model's wake has lasted longer than its requests were held."""
        gate = self.before.gates.get(model)
        return gate is not None and overdue(gate, self.now)

    def before_it(self, model: str) -> tuple[str, ...]:
        """Return the workloads ahead of a model that starts, or that has requests while it sleeps."""
        turn = self.turn(model)
        turn_is_over = self.sleeps(model) and turn.gives_way_to
        return turn.after or ((turn.gives_way_to,) if turn_is_over else ())

    def turn(self, model: str) -> Turn:
        """Return the turn of a model."""
        return self.turns.get(model, NO_MATTER)

    @property
    def displaced(self) -> Sequence[ModelGate]:
        """Return open gates of models no longer in the spec, in a Ray cluster that still gets requests."""
        if (self.first or self.ray.active) not in self.before.backends:
            return ()
        names = {model.name for model in self.service.spec.models}
        gates = self.before.gates.values()
        return [gate for gate in gates if gate.name not in names and gate.state is GateState.OPEN]


def snapshot_of(
    observed: Observed, service: LLMService, misfits: tuple[Misfit, ...], answers: tuple[Answer, ...]
) -> Snapshot:
    """Return the snapshot of an observation."""
    ray = ray_view(observed.ray_service)
    pods = pod_views(observed.pods)
    before = previous_status(observed)
    problem = lasting(service_problem(ray, observed.ray_clusters, pods), before.standing)
    return Snapshot(
        service=service,
        ray=ray,
        pods=pods,
        problem=problem or _head_still_crashing(ray, pods, before),
        misfits={misfit.model: misfit for misfit in misfits},
        before=before,
        answers={answer.model: answer for answer in answers},
        caches={view.model: view for view in caches(observed, service)},
        reports=observed.reports,
        now=observed.now,
        given_back=observed.given_back,
        first=first_cluster(observed, ray),
        turns=observed.turns,
    )


def previous_status(observed: Observed) -> Before:
    """Return the parsed current status."""
    metadata, status = mapping(observed.manifest.get("metadata")), observed.status
    stalled = condition(status, ConditionType.STALLED)
    stands = stalled.get("status") == "True" and whole(stalled.get("observedGeneration")) == whole(
        metadata.get("generation")
    )
    return Before(
        models={text(item.get("name")): item for item in mappings(status.get("models"))},
        head=mapping(status.get("head")),
        ready=condition(status, ConditionType.READY),
        standing=text(stalled.get("reason")) if stands else "",
        current=whole(status.get("observedGeneration")) == whole(metadata.get("generation")),
        sleep_states=observed.sleep_states if observed.gates or observed.asleep is not None else {},
        gates=observed.gates,
        backends=backends_before(status),
    )


def _head_still_crashing(ray: RayView, pods: list[PodView], before: Before) -> Problem | None:
    """Return the problem that ended the last head, until the next one has become ready.

    An ended head is not restarted but replaced, so its end is no longer observable.
    """
    if before.standing != Reason.CONTAINER_CRASHING or before.head.get("reason") != before.standing:
        return None
    if any(pod.role == HEAD and pod.cluster == ray.coming and pod.ready for pod in pods):
        return None
    return Problem(Reason.CONTAINER_CRASHING, text(before.head.get("message")), stalled=True, of_head=True)
