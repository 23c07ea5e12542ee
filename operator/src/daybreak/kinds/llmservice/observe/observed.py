"""Observation of a service by one reconcile, gathered once: the only input of every decision."""

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
    """Report of one replica on one LoRA adapter."""

    id: str
    """Digest of the requested adapter."""
    state: str
    """State: `Loading`, `Loaded`, `Rejected` or `Failed`."""
    reason: str = ""
    """Reason why the adapter cannot be used."""


@dataclass(frozen=True)
class CopyReport:
    """Progress of the copy of a model's weights into a PVC."""

    copied: int
    """Number of copied bytes."""
    total: int | None
    """Total number of bytes. None if the source has not reported it yet."""

    @property
    def percent(self) -> int | None:
        """Return the copied percentage, rounded down, or None if the total is unknown."""
        return None if not self.total else min(100, 100 * self.copied // self.total)


Reports = Mapping[str, Mapping[str, AdapterReport]]
"""Reports of replicas on their adapters: by the pod's name, then by the adapter's."""


@dataclass(frozen=True)
class Observed(observed.Observed[LLMService]):
    """Observation of an LLMService and its surroundings at one time."""

    kuberay_installed: bool = True
    """True if the API server serves ray.io/v1 RayServices."""
    ray_service: Manifest | None = None
    ray_clusters: tuple[Manifest, ...] = ()
    jobs: tuple[Manifest, ...] = ()
    """Jobs that copy weights into PVCs. Their pods are in `pods`."""
    claims: tuple[Manifest, ...] = ()
    """PersistentVolumeClaims that Daybreak has created."""
    written: LLMService | None = None
    """LLMService as the user has written it, if `subject` is built from another revision. None if `subject`
    is as written."""
    known_revisions: tuple[Revision, ...] = ()
    """Revisions that are kept."""
    changes: Mapping[str, Change] = field(default_factory=dict)
    """Change from the running state to each other revision, by its name. Only requested revisions are
    included, and only if a RayService exists."""
    own: BuiltWith | None = None
    """Record of this operator's build of the RayService. None if it is unknown, or if there must be no
    RayService."""
    reports: Reports = field(default_factory=dict)
    """Reports on adapters from the replicas that have reported."""
    copies: Mapping[str, CopyReport] = field(default_factory=dict)
    """Reports of the Jobs that fill PVCs, by model, without Jobs that have not reported."""
    rejections: Mapping[str, str] = field(default_factory=dict)
    """Error with which the API server rejected the last pod of a Job without pods, by the Job's name."""

    def misfits_of(self, subject: LLMService, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
        """Return the pods of a service that fit on no node."""
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
        """Return the models whose workers are released.

        Without a gateway no request could wake a model: its workers are released only if the user scales the
        service to 0.
        """
        if self.subject is None:
            return frozenset()
        if self.gateway is None:
            scaled_to_zero = self.subject.spec.replicas == 0
            return frozenset(model.name for model in self.subject.spec.models if scaled_to_zero)
        return frozenset(name for name, state in self.sleep_states.items() if state.asleep is not None)

    @property
    def without_replicas(self) -> frozenset[str]:
        """Return the models for which Serve must run no replicas.

        These are the sleeping models and, while the Ray cluster starts for the first time, the models whose
        turn has not come. KubeRay calls the cluster active when all requested replicas are up. Otherwise the
        other models would wait for these models, and these models would wait for the accelerators of the
        others.
        """
        if ray_view(self.ray_service).active:
            return self.given_back
        return self.given_back | {model for model, turn in self.turns.items() if turn.after}

    @property
    def requested(self) -> LLMService | None:
        """Return the LLMService as the user has written it."""
        return self.written or self.subject

    @cached_property
    def history(self) -> History | None:
        """Return the revisions of the service, or None if its spec is invalid."""
        requested = self.requested
        if requested is None:
            return None
        own, every = with_own(requested, self.known_revisions)
        return History(self.manifest, requested.spec.rollout, own, every, as_written=self.written is None)

    @property
    def rollout(self) -> RolloutState | None:
        """Return the decision on the last change, or None if there is none yet."""
        return self.history.state if self.history is not None else state_of(self.status)

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """Return the kept revisions, and the one that the spec requests."""
        return self.history.revisions if self.history is not None else self.known_revisions

    @property
    def own_revision(self) -> Revision | None:
        """Return the revision from which `subject` is built, or None if the spec is invalid."""
        return self.history.built if self.history is not None else None

    @property
    def desired(self) -> Revision | None:
        """Return the requested revision: that of the spec, or the one requested by number."""
        return self.history.desired if self.history is not None else None

    @cached_property
    def target(self) -> LLMService | None:
        """Return the service as requested, or None if the requested revision is invalid."""
        if self.requested is None or self.history is None or self.desired in (None, self.history.own):
            return self.requested
        assert self.desired is not None  # noqa: S101 - checked above
        return built_of(self.requested, self.desired)

    @property
    def longest_shutdown(self) -> timedelta:
        """Return the maximum time that requests of any model may take when a pod stops."""
        models = self.subject.spec.models if self.subject is not None else ()
        waits = (seconds(model.serve.graceful_shutdown_timeout) for model in models)
        return timedelta(seconds=max(waits, default=0))
