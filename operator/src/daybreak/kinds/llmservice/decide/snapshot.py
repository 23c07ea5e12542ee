"""A snapshot of a service: everything observed, read once, for every check that follows."""

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
    sleep_states: Mapping[str, SleepState]
    """What was decided of each model's sleep; empty: nothing yet, or never."""
    gates: Mapping[str, ModelGate]
    """The gates as gateways have read them, by model, those of a spec before among them."""
    backends: Sequence[str]
    """The Ray clusters that requests went to."""

    def silence(self, model: str) -> str:
        """What came when the model was asked last; empty when an answer came, or none was asked for."""
        said = self.models.get(model, {})
        return text(said.get("message")) if said.get("reason") == Reason.PROBE_FAILED else ""


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

    given_back: frozenset[str]
    """The models whose workers are given back at present."""
    first: str
    """The Ray cluster to which requests go, where KubeRay has switched to a second one of which not every
    model has answered yet; empty: they go to the one that is active."""
    turns: Mapping[str, Turn]
    """By model, whose turn it is, where accelerators are scarce."""

    @property
    def filling(self) -> Sequence[CacheView]:
        """The copies that are not complete."""
        return [view for view in self.caches.values() if not view.complete]

    @property
    def waited_for(self) -> Sequence[CacheView]:
        """Those of them without which the RayService stays as it is: models that sleep need none."""
        return [view for view in self.filling if not self.sleeps(view.model)]

    @property
    def asleep(self) -> bool:
        """Whether the workers of every model are given back at present."""
        return all(self.sleeps(model.name) for model in self.service.spec.models)

    def sleeps(self, model: str) -> bool:
        """Whether the workers of a model are given back at present."""
        return model in self.given_back

    def waking(self, model: str) -> bool:
        """Whether requests to a model are held until it answers."""
        state = self.before.sleep_states.get(model)
        return state is not None and state.asleep is None and state.gate is not GateState.OPEN

    def wakes_from_sleep(self, model: str) -> bool:
        """Whether a model is on the way up from sleep, not for the first time."""
        gate = self.before.gates.get(model)
        return gate is not None and gate.wake is not None and gate.wake.under_way

    def node_wait(self, model: str) -> timedelta | None:
        """How much longer a model's wake may wait for nodes that went away with sleep.

        None: it does not wake, or has waited long enough.
        """
        return node_wait(self.before.gates.get(model), self.now)

    def overdue(self, model: str) -> bool:
        """Whether a model's wake has lasted longer than its requests were held."""
        gate = self.before.gates.get(model)
        return gate is not None and overdue(gate, self.now)

    def before_it(self, model: str) -> tuple[str, ...]:
        """Workloads that come before a model that wants accelerators, on its way up or asked in its sleep."""
        turn = self.turn(model)
        turn_is_over = self.sleeps(model) and turn.gives_way_to
        return turn.after or ((turn.gives_way_to,) if turn_is_over else ())

    def turn(self, model: str) -> Turn:
        """A model's turn."""
        return self.turns.get(model, NO_MATTER)

    @property
    def displaced(self) -> Sequence[ModelGate]:
        """Open gates of models that the spec has no more, in a Ray cluster that requests go to still."""
        if (self.first or self.ray.active) not in self.before.backends:
            return ()
        names = {model.name for model in self.service.spec.models}
        gates = self.before.gates.values()
        return [gate for gate in gates if gate.name not in names and gate.state is GateState.OPEN]


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
        given_back=seen.given_back,
        first=first_cluster(seen, ray),
        turns=seen.turns,
    )


def said_before(seen: Observed) -> Before:
    """Read the status as it stands."""
    metadata, status = mapping(seen.manifest.get("metadata")), seen.status
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
        sleep_states=seen.sleep_states if seen.gates or seen.asleep is not None else {},
        gates=seen.gates,
        backends=backends_before(status),
    )


def _head_still_crashing(ray: RayView, pods: list[PodView], before: Before) -> Problem | None:
    """What ended the last head, as long as the next one has not become ready.

    A head that has ended is not restarted but replaced, so nothing of its end can be seen any more.
    """
    if before.standing != Reason.CONTAINER_CRASHING or before.head.get("reason") != before.standing:
        return None
    if any(pod.role == HEAD and pod.cluster == ray.coming and pod.ready for pod in pods):
        return None
    return Problem(Reason.CONTAINER_CRASHING, text(before.head.get("message")), stalled=True, of_head=True)
