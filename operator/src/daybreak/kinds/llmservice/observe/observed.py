"""What one reconcile has seen of a service, gathered once: the only input of every decision."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.schema.scalars import seconds
from daybreak.kinds.llmservice.objects.built_with import BuiltWith
from daybreak.kinds.llmservice.objects.revisions import built_of, with_own
from daybreak.ray.views.ray_pods import pod_views
from daybreak.ray.views.ray_service_view import ray_view
from daybreak.rollouts.history import History
from daybreak.rollouts.machine import RolloutState
from daybreak.rollouts.record import state_of
from daybreak.rollouts.revisions import Revision
from daybreak.rollouts.strategy import Change
from daybreak.scheduling import fit
from daybreak.scheduling.fit import Misfit
from daybreak.scheduling.nodes import Node
from daybreak.workloads import observed
from daybreak.workloads.claimant import Claimant


@dataclass(frozen=True)
class AdapterReport:
    """What one replica says of one LoRA adapter."""

    id: str
    """Digest of what was asked for."""
    state: str
    """`Loading`, `Loaded`, `Rejected` or `Failed`."""
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
class Observed(observed.Observed[LLMService]):
    """An LLMService and its surroundings at one moment."""

    kuberay_installed: bool = True
    """Whether the API server serves ray.io/v1 RayServices."""
    ray_service: Manifest | None = None
    ray_clusters: tuple[Manifest, ...] = ()
    jobs: tuple[Manifest, ...] = ()
    """The Jobs that copy weights into claims; their pods are among `pods`."""
    claims: tuple[Manifest, ...] = ()
    """The PersistentVolumeClaims that Daybreak has made."""
    written: LLMService | None = None
    """The LLMService as the person has written it, where `subject` is built of another revision; None: it is
    as written."""
    known_revisions: tuple[Revision, ...] = ()
    """The revisions that are kept."""
    changes: Mapping[str, Change] = field(default_factory=dict)
    """What it takes to come from what runs to another revision, by its name; only of those that are asked
    for, and where a RayService is there."""
    own: BuiltWith | None = None
    """What this operator builds the RayService with; None: that is not known, or there is none to be."""
    reports: Reports = field(default_factory=dict)
    """What the replicas that have been heard say of their adapters."""
    copies: Mapping[str, CopyReport] = field(default_factory=dict)
    """What the Jobs that fill claims say of themselves, by model; those that were not heard are not in it."""
    rejections: Mapping[str, str] = field(default_factory=dict)
    """What the API server reported when it rejected the last pod of a Job without pods, by the Job's name."""

    def misfits_of(self, subject: LLMService, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
        """Return what of a service fits on no node."""
        return fit.fit(subject.workload, nodes)

    def claimants(self) -> Iterable[Claimant]:
        """Return the worker pods of each model."""
        begins, found = not ray_view(self.ray_service).active, []
        pods = [pod for pod in pod_views(self.pods) if not pod.over]
        for model in self.subject.spec.models if self.subject is not None else ():
            own = [pod for pod in pods if pod.group == names.worker_group(model.name)]
            found.append(Claimant(model.name, model, own, begins))
        return found

    @cached_property
    def given_back(self) -> frozenset[str]:
        """The models whose workers are given back. Without a gateway nobody could wake one: only a person
        who scales the service to 0 takes them."""
        if self.subject is None:
            return frozenset()
        if self.gateway is None:
            scaled_to_zero = self.subject.spec.replicas == 0
            return frozenset(model.name for model in self.subject.spec.models if scaled_to_zero)
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
        return self.written or self.subject

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
    def target(self) -> LLMService | None:
        """The service as it is asked for; None when that cannot be read."""
        if self.asked_for is None or self.history is None or self.wanted in (None, self.history.own):
            return self.asked_for
        assert self.wanted is not None  # noqa: S101 - checked above
        return built_of(self.asked_for, self.wanted)

    @property
    def longest_shutdown(self) -> timedelta:
        """How long requests of any of its models may take at the end of a pod."""
        models = self.subject.spec.models if self.subject is not None else ()
        waits = (seconds(model.serve.graceful_shutdown_timeout) for model in models)
        return timedelta(seconds=max(waits, default=0))
