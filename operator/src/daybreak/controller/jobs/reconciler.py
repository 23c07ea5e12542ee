"""One reconcile of an object that becomes one job: observe → decide → plan → apply → decide → status."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.controller.again import FOREIGN_SECONDS, REFUSED_SECONDS, SOON_SECONDS, Again, retry_conflicts
from daybreak.controller.asking.job_events import JobEvents, waiting
from daybreak.controller.jobs.reports import JobProber, running_job
from daybreak.controller.live import observe_live
from daybreak.controller.writer import Writer
from daybreak.jobs.decision import Decision
from daybreak.jobs.observed import ObservedJob, ObservedT
from daybreak.jobs.plan import Stays, make_plan
from daybreak.jobs.status import COUNT_SECONDS, JobStatus
from daybreak.kube.client import Api
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing.apply import Applier
from daybreak.manifests.keys import Key, OwnerKey
from daybreak.manifests.owner import NameHolder, Owner
from daybreak.manifests.plan import Plan
from daybreak.manifests.resources import of
from daybreak.problems.events import Event

Observed_contra = TypeVar("Observed_contra", bound=ObservedJob[Any, Any], contravariant=True)
Decided = TypeVar("Decided", bound=Decision)
Status = TypeVar("Status", bound=JobStatus)


class JobObserver(Protocol[ObservedT]):
    """Observer of the state of the cluster."""

    def observe(self, key: Key) -> ObservedT | None:
        """Return the observation of an object, or None if it does not exist; its records are then dropped."""
        ...

    def again(self, key: Key, observed: ObservedT) -> ObservedT:
        """Return an observation with current objects and the spec of a previous observation."""
        ...

    def received(self, key: Key, observed: ObservedT) -> ObservedT:
        """Return the observation with the report of the job."""
        ...


class JobKind(Protocol[Observed_contra, Decided, Status]):
    """Parts that a kind adds."""

    @property
    def resource(self) -> Resource:
        """Kind of the objects."""
        ...

    @property
    def owned(self) -> Collection[Resource]:
        """Kinds of objects that are created for an object."""
        ...

    @property
    def job(self) -> Resource:
        """Kind of the jobs."""
        ...

    @property
    def role(self) -> str | None:
        """Role of the Ray pod that runs the job, or None if there is only one pod."""
        ...

    def decide(self, observed: Observed_contra) -> Decided:
        """Return the decision for an observation, as a pure function."""
        ...

    def desired(self, observed: Observed_contra, decision: Decided) -> Sequence[dict[str, Any]]:
        """Return the desired objects, dependencies first. Called only before an apply."""
        ...

    def keeps(self, observed: Observed_contra, decision: Decided) -> dict[str, Any] | None:
        """Return the object that preserves a result outside the status, or None if there is none.

        The operator writes it once, before the status reports the end, and does not watch it. After the job
        is gone, the content can no longer be determined.
        """
        ...

    def known(self, observed: Observed_contra) -> Collection[Resource]:
        """Return the kinds of its objects that the API server serves."""
        ...

    def stays(self, desired: Manifest, live: Manifest, whose: NameHolder) -> bool:
        """Return True if an existing object stays unchanged."""
        ...

    def report(self, observed: Observed_contra, decision: Decided) -> Status:
        """Return the desired status."""
        ...

    def news(self, before: Mapping[str, Any], after: Status) -> Sequence[Event]:
        """Return the changes that become events."""
        ...

    def written(self, key: Key, observed: Observed_contra, after: Status) -> None:
        """Handle that this status was written."""
        ...

    def look_again(self, observed: Observed_contra, decision: Decided, again: Again) -> None:
        """Add the requeues that the kind itself needs."""
        ...


class Reconciler(Generic[ObservedT, Decided, Status]):
    """Brings the cluster to the state of an object's spec, and writes the status.

    Args:
        kind: Parts that the kind adds.
        observer: JobObserver the state of the cluster.
        api: The API server.
        cache: State of the cluster.
        prober: Queries jobs for their progress.
        applier: Writes objects.
        may_act: Return True if the lease is currently held.
        events: Reads the reason why Jobs have no pods; None if the jobs are of another kind.
    """

    def __init__(
        self,
        kind: JobKind[ObservedT, Decided, Status],
        observer: JobObserver[ObservedT],
        api: Api,
        cache: Cache,
        prober: JobProber[Any],
        applier: Applier,
        may_act: Callable[[], bool],
        events: JobEvents | None = None,
    ) -> None:
        self._kind = kind
        self._events = events
        self._observer = observer
        self._cache = cache
        self._prober = prober
        self._applier = applier
        self._writer = Writer(api, cache, applier, kind.resource, may_act)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one object. Return the requeue delay in seconds, or None to wait for a change."""
        return await retry_conflicts(self._once, key, self._kind.owned)

    async def _once(self, key: Key) -> float | None:
        kind, again = self._kind, Again()
        observed = self._observer.observe(key)
        if observed is None:
            self._prober.forget(key)
            if self._events is not None:
                self._events.forget(key)
            self._applier.forget(OwnerKey(kind.resource.kind, *key))
            return None
        owner = Owner(kind.resource, key, observed.manifest["metadata"]["uid"])
        job = running_job(owner.uid, observed.pods, received=observed.finished, role=kind.role)
        if self._events is not None:
            jobs = () if observed.job is None else (observed.job,)
            rejections = self._events.rejections(key, waiting(jobs, observed.pods))
            observed = replace(observed, rejection=next(iter(rejections.values()), ""))
        observed = self._observer.received(key, replace(observed, progress=self._prober.message(key, job)))
        decision = kind.decide(observed)
        if decision.apply:
            applied = await self._applied(owner, observed, decision, again)
            if applied is None:
                return None  # the object is gone
            observed = applied
            decision = kind.decide(observed)
        kept = kind.keeps(observed, decision)
        if kept is not None:
            last = await self._kept(owner, observed, kept)
            if last is None:
                return None
            observed = last
        after = kind.report(observed, decision)
        report = await self._writer.write(
            key, observed.manifest, after, lambda before, _: kind.news(before, after), observed.now
        )
        if report.gone:
            return None
        if report.new:
            kind.written(key, observed, after)
        if after.completion_time and not observed.finished:
            # The end is in the status now. The job waits for this confirmation.
            again.at_once()
        if after.accelerators:
            again.after(COUNT_SECONDS)
        kind.look_again(observed, decision, again)
        return again.seconds

    async def _plan(
        self, owner: Owner, desired: Sequence[dict[str, Any]], owned: Collection[Resource], stays: Stays
    ) -> Plan:
        """Observe the object's objects, and plan the steps to the desired ones."""
        named = [each for each in desired if of(each) in owned]
        live = await observe_live(owner, named, owned, self._cache, self._applier)
        return make_plan(owner, desired, owned, self._kind.job, stays, live)

    async def _kept(self, owner: Owner, observed: ObservedT, kept: dict[str, Any]) -> ObservedT | None:
        """Write the result that outlives the job.

        Return the new observation, or None if the object is gone.
        """
        plan = await self._plan(owner, [kept], (of(kept),), lambda *_: False)
        if plan.foreign:
            return replace(observed, foreign=plan.foreign)
        applied = await self._writer.carry_out(owner.key, owner.uid, plan)
        return None if applied is None else replace(observed, foreign=(), refusal=applied.refusal)

    async def _applied(
        self, owner: Owner, observed: ObservedT, decision: Decided, again: Again
    ) -> ObservedT | None:
        """Apply the decision. Return the new observation, or None if the object is gone."""
        kind = self._kind
        plan = await self._plan(owner, kind.desired(observed, decision), kind.known(observed), kind.stays)
        if plan.foreign:
            again.after(FOREIGN_SECONDS)
            return replace(observed, foreign=plan.foreign)
        if plan.leaving:
            again.after(SOON_SECONDS)
        # Deleted objects release accelerators, so a rejected object must not block deletions.
        applied = await self._writer.carry_out(owner.key, owner.uid, plan, surplus_first=True)
        if applied is None:
            return None
        if applied.refusal:
            again.after(REFUSED_SECONDS)
        return replace(self._observer.again(owner.key, observed), foreign=(), refusal=applied.refusal)
