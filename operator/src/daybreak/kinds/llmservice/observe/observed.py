"""What one reconcile has seen of a service, gathered once: the only input of every decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

from daybreak.api.common.unstructured import Manifest, mapping
from daybreak.api.gates.gate_status import ModelGate
from daybreak.api.gates.sleep import SleepDepth, State
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.schema.scalars import seconds
from daybreak.controller.asking.answer import Answer
from daybreak.gates.sleep_policy import depth, gates_before, sleep_policy, sleep_state_of
from daybreak.gates.state_machine import SleepPolicy, SleepState, start
from daybreak.gates.traffic import UNKNOWN, Traffic
from daybreak.kinds.llmservice.objects.built_with import BuiltWith
from daybreak.kinds.llmservice.objects.revisions import built_of, with_own
from daybreak.ray.views.ray_service_view import ray_view
from daybreak.rollouts.history import History
from daybreak.rollouts.machine import RolloutState
from daybreak.rollouts.record import state_of
from daybreak.rollouts.revisions import Revision
from daybreak.rollouts.strategy import Change
from daybreak.scheduling.claim import NO_MATTER, Turn
from daybreak.scheduling.nodes import Node
from daybreak.scheduling.schedulable import check_off


@dataclass(frozen=True)
class AdapterReport:
    """What one replica says of one LoRA adapter."""

    id: str
    """Digest of what was asked for."""
    state: str
    """`Loading`, `Loaded`, `Refused` or `Failed`."""
    reason: str = ""
    """Why it cannot be used."""


@dataclass(frozen=True)
class CopyReport:
    """How far the copy of a model's weights into a claim is."""

    copied: int
    """Bytes that are there."""
    total: int | None
    """Bytes in all; None: the source has not told yet."""

    @property
    def percent(self) -> int | None:
        """How much of it is there, rounded down; None where the whole is not known."""
        return None if not self.total else min(100, 100 * self.copied // self.total)


Reports = Mapping[str, Mapping[str, AdapterReport]]
"""What replicas say of their adapters: by the pod's name, then by the adapter's."""


@dataclass(frozen=True)
class GatewayView:
    """The gateway of the service's namespace, as far as it concerns the service."""

    port: int
    """The gateway's port for the service."""
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    """What gateways say of the requests to each model."""
    clusters: frozenset[str] | None = None
    """The RayClusters that gateways send requests to, or have requests at; None: that is not known."""
    leaving: bool = False
    """Whether gateways are switched off: this one goes once no service is reached through it."""
    past: bool = False
    """Whether the service's address leads past it already. It finishes what it streams."""
    rejected: str = ""
    """Why the API server rejects pods of the gateway; empty if it does not."""

    def of(self, model: str) -> Traffic:
        """What gateways say of the requests to a model."""
        return self.traffic.get(model, UNKNOWN)


@dataclass(frozen=True)
class Observed:
    """Everything seen of one LLMService at one moment."""

    manifest: Manifest
    """The LLMService itself, status included."""
    service: LLMService | None
    """The same, read; None when the spec cannot be read."""
    problems: tuple[str, ...]
    """What is wrong with the spec, each as one sentence with the field's path; empty when it can be built."""
    kuberay_installed: bool
    """Whether the API server serves ray.io/v1 RayServices."""
    foreign: tuple[str, ...] = ()
    """Objects that bear a name Daybreak needs and belong to somebody else, as `Kind/name`."""
    ray_service: Manifest | None = None
    ray_clusters: tuple[Manifest, ...] = ()
    pods: tuple[Manifest, ...] = ()
    """The Ray pods, of every RayCluster of the service, and those of its Jobs."""
    jobs: tuple[Manifest, ...] = ()
    """The Jobs that copy weights into claims; their pods are among `pods`."""
    claims: tuple[Manifest, ...] = ()
    """The PersistentVolumeClaims that Daybreak has made."""
    nodes: tuple[Node, ...] | None = None
    """None: the operator may not see nodes."""
    written: LLMService | None = None
    """The LLMService as the person has written it, where `service` is built of another revision; None: it is
    as written."""
    known_revisions: tuple[Revision, ...] = ()
    """The revisions that are kept."""
    changes: Mapping[str, Change] = field(default_factory=dict)
    """What it takes to come from what runs to another revision, by its name; only of those that are asked
    for, and where a RayService is there."""
    booked: Mapping[str, Mapping[str, Decimal]] | None = None
    """What pods hold on each node; None: nobody has asked."""
    own: BuiltWith | None = None
    """What this operator builds the RayService with; None: that is not known, or there is none to be."""
    refusal: str = ""
    """What the API server said when it refused the last apply of an owned object; empty when it took all."""
    answers: tuple[Answer, ...] = ()
    """Answers asked for in this reconcile."""
    reports: Reports = field(default_factory=dict)
    """What the replicas that have been heard say of their adapters."""
    copies: Mapping[str, CopyReport] = field(default_factory=dict)
    """What the Jobs that fill claims say of themselves, by model; those that were not heard are not in it."""
    rejections: Mapping[str, str] = field(default_factory=dict)
    """What the API server reported when it rejected the last pod of a Job without pods, by the Job's name."""
    turns: Mapping[str, Turn] = field(default_factory=dict)
    """By model, whose turn it is, where accelerators are scarce."""
    gateway: GatewayView | None = None
    """None: services are reached without a gateway, and never sleep."""
    now: datetime = field(kw_only=True)

    @cached_property
    def gates(self) -> Mapping[str, ModelGate]:
        """The gates as the status says them, by model; empty without a gateway."""
        return gates_before(self.status) if self.gateway is not None else {}

    @cached_property
    def sleep_policies(self) -> Mapping[str, SleepPolicy]:
        """What the person wants of each model's sleep at this time."""
        if self.service is None:
            return {}
        service = self.service
        if self.gateway is not None and self.gateway.leaving:
            # Nothing sleeps without a gateway, and there soon is none.
            awake = SleepPolicy(None, forced=State.AWAKE)
            return {model.name: awake for model in service.spec.models}
        return {
            model.name: sleep_policy(
                self.manifest,
                service.sleep_of(model),
                service.spec.state,
                self.gates.get(model.name),
                self.now,
            )
            for model in service.spec.models
        }

    @cached_property
    def sleep_states(self) -> Mapping[str, SleepState]:
        """What was decided of each model's sleep, or the beginning; empty without a gateway.

        A model that comes to a service that sleeps sleeps with the others.
        """
        if self.service is None or self.gateway is None:
            return {}
        before = {name: sleep_state_of(gate, self.now) for name, gate in self.gates.items()}
        together, states = depth(before.values()), {}
        for model in self.service.spec.models:
            policy = self.sleep_policies[model.name]
            alone = policy.depth if self.service.starts_asleep(model) else None
            states[model.name] = before.get(model.name) or start(self.now, policy, together or alone)
        return states

    @cached_property
    def asleep(self) -> SleepDepth | None:
        """What is given back of the whole service; None: nothing, or the workers of some models only."""
        return depth(self.sleep_states.values())

    @cached_property
    def given_back(self) -> frozenset[str]:
        """The models whose workers are given back. Without a gateway nobody could wake one: only a person
        who scales the service to 0 takes them."""
        if self.service is None:
            return frozenset()
        if self.gateway is None:
            scaled_to_zero = self.service.spec.replicas == 0
            return frozenset(model.name for model in self.service.spec.models if scaled_to_zero)
        return frozenset(name for name, state in self.sleep_states.items() if state.asleep is not None)

    @property
    def without_replicas(self) -> frozenset[str]:
        """The models of which Serve is asked for none: those that sleep, and, while the Ray cluster comes
        up for the first time, those whose turn it is not. KubeRay calls it active when all is up that Serve
        is asked for, so the others would wait for these, and these for the accelerators of the others."""
        if ray_view(self.ray_service).active:
            return self.given_back
        return self.given_back | {model for model, turn in self.turns.items() if turn.after}

    @property
    def asked_for(self) -> LLMService | None:
        """The LLMService as the person has written it."""
        return self.written or self.service

    @cached_property
    def history(self) -> History | None:
        """The revisions of the service; None when its spec cannot be read."""
        asked = self.asked_for
        if asked is None:
            return None
        own, every = with_own(asked, self.known_revisions)
        return History(self.manifest, asked.spec.rollout, own, every, as_written=self.written is None)

    @property
    def rollout(self) -> RolloutState | None:
        """What was decided of the last change; None: nothing yet."""
        return self.history.state if self.history is not None else state_of(self.status)

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """The revisions that are kept, and the one that the spec asks for."""
        return self.history.revisions if self.history is not None else self.known_revisions

    @property
    def own_revision(self) -> Revision | None:
        """The one that `service` is built of; None when its spec cannot be read."""
        return self.history.built if self.history is not None else None

    @property
    def wanted(self) -> Revision | None:
        """The one that is asked for: by the spec, or by its number."""
        return self.history.wanted if self.history is not None else None

    @cached_property
    def target_service(self) -> LLMService | None:
        """The service as it is asked for; None when that cannot be read."""
        if self.asked_for is None or self.history is None or self.wanted in (None, self.history.own):
            return self.asked_for
        assert self.wanted is not None  # noqa: S101 - checked above
        return built_of(self.asked_for, self.wanted)

    @property
    def longest_shutdown(self) -> timedelta:
        """How long requests of any of its models may take at the end of a pod."""
        models = self.service.spec.models if self.service is not None else ()
        waits = (seconds(model.serve.graceful_shutdown_timeout) for model in models)
        return timedelta(seconds=max(waits, default=0))

    def turn(self, model: str) -> Turn:
        """A model's turn."""
        return self.turns.get(model, NO_MATTER)

    @property
    def fit_check_off(self) -> bool:
        """Whether the service says that nodes come when they are asked for."""
        return check_off(self.manifest)

    @property
    def fit_checked(self) -> bool:
        """Whether the nodes are compared with what the service needs, as far as they are known."""
        return self.service is not None and not self.problems and not self.fit_check_off

    @property
    def status(self) -> Mapping[str, Any]:
        """The LLMService's status as it stands; empty when it has none."""
        return mapping(self.manifest.get("status"))
