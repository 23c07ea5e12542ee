"""Writes of a reconcile: the object's owned objects, status and events."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

import structlog

from daybreak.api.common.unstructured import Manifest, mapping
from daybreak.api.schema.resource import Resource
from daybreak.controller import metrics
from daybreak.controller.again import REFUSED_SECONDS, SOON_SECONDS
from daybreak.controller.kind import LeaseLost
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing import scale, status, upgrades
from daybreak.kube.writing.apply import Applier
from daybreak.manifests.control import is_controlled_by
from daybreak.manifests.keys import Key, key_of
from daybreak.manifests.plan import Plan, Target
from daybreak.manifests.resources import RAY_CLUSTERS, RAY_SERVICES, of
from daybreak.problems.events import Event

FRESH_SECONDS = 300.0
"""Maximum age in seconds of an owner's last report for which the owner is assumed to exist. When thousands
are created at once, the last ones wait for minutes, and each check would be another request."""

log = structlog.get_logger("daybreak.writer")


@dataclass(frozen=True)
class Applied:
    """Result of writes."""

    wrote: bool
    """True if an object was written."""
    refusal: str = ""
    """Message of the API server about a rejected object; empty if none was rejected."""


class StatusModel(Protocol):
    """Status of any kind."""

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        """Return the status as plain values."""
        ...


@dataclass(frozen=True)
class StatusWrite:
    """Result of a status write."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    gone: bool = False
    """True if the object no longer existed."""

    @property
    def new(self) -> bool:
        """True if the status has changed."""
        return not self.gone and self.before != self.after


News = Callable[[Mapping[str, Any], Mapping[str, Any]], Iterable[Event]]
"""Returns the events for a change of a status, from the values before and after."""


class Writer:
    """Writes for the objects of one kind while the lease is held.

    Args:
        api: The API server.
        cache: State of the cluster.
        applier: Writes owned objects.
        resource: Kind of the owners.
        may_act: Returns True if the lease is currently held.
    """

    def __init__(
        self, api: Api, cache: Cache, applier: Applier, resource: Resource, may_act: Callable[[], bool]
    ) -> None:
        self._api = api
        self._cache = cache
        self._applier = applier
        self._resource = resource
        self._may_act = may_act

    def check(self) -> None:
        """Raise LeaseLost if the operator may no longer write."""
        if not self._may_act():
            raise LeaseLost

    async def carry_out(
        self, key: Key, uid: str, plan: Plan, *, surplus_first: bool = False
    ) -> Applied | None:
        """Apply a plan to an owner's objects. Return None, without writes, if the owner is gone.

        Args:
            key: Key of the owner.
            uid: UID of the owner.
            plan: Desired state.
            surplus_first: True to delete surplus objects first, regardless of later rejections. Otherwise
                they are deleted after all desired objects have been written.
        """
        taken = [Target(live, live) for live in plan.surplus]
        if not await self.may_own(key, uid, (*plan.targets, *taken)):
            return None
        deleted = surplus_first and await self.delete(plan.surplus)
        applied = await self.apply(plan.targets)
        if not surplus_first and not applied.refusal:
            deleted = await self.delete(plan.surplus)
        return replace(applied, wrote=applied.wrote or deleted)

    async def apply(self, targets: Iterable[Target]) -> Applied:
        """Write changed objects, up to the first rejected one."""
        wrote = False
        for target in targets:
            self.check()
            try:
                if await self._applier.apply(target.desired, target.live):
                    metrics.WRITES.labels(target.desired["kind"]).inc()
                    wrote = True
            except ApiError as error:
                if not error.refused:
                    raise
                refusal = f"{target.desired['kind']} {target.desired['metadata']['name']}: {error.message}"
                return Applied(wrote, refusal)
        return Applied(wrote)

    async def delete(self, surplus: Iterable[Manifest]) -> bool:
        """Delete surplus objects. Return True if there were any."""
        wrote = False
        for live in surplus:
            self.check()
            await self._applier.delete(live)
            metrics.WRITES.labels(live["kind"]).inc()
            wrote = True
        return wrote

    async def set_bounds(
        self, clusters: Iterable[Manifest], bounds: Mapping[str, scale.Bounds]
    ) -> list[float]:
        """Write bounds of worker groups into RayClusters, by cluster name.

        Return requeue delays in seconds.
        """
        again = []
        for cluster in clusters:
            desired = bounds.get(cluster["metadata"]["name"])
            if desired is None:
                continue
            self.check()
            try:
                if await scale.set_bounds(self._api, self._cache, cluster, desired):
                    metrics.WRITES.labels(RAY_CLUSTERS.kind).inc()
            except ApiError as error:
                if not (error.conflict or error.not_found or error.status == 422):
                    raise
                again.append(SOON_SECONDS)  # the autoscaler or KubeRay wrote first
        return again

    async def delete_clusters(self, clusters: Iterable[Manifest]) -> list[float]:
        """Delete RayClusters that are no longer needed. Return requeue delays in seconds."""
        again = []
        for cluster in clusters:
            self.check()
            try:
                await self._applier.delete(cluster)
                metrics.WRITES.labels(RAY_CLUSTERS.kind).inc()
            except ApiError as error:
                if not (error.conflict or error.refused):
                    raise
                again.append(SOON_SECONDS if error.conflict else REFUSED_SECONDS)
        return again

    async def call_off(self, ray_service: Manifest, pending: str) -> list[float]:
        """Delete the pending Ray cluster of a RayService, which has this name.

        Return requeue delays in seconds.
        """
        self.check()
        try:
            await upgrades.call_off(self._api, self._cache, ray_service, pending)
            metrics.WRITES.labels(RAY_SERVICES.kind).inc()
        except ApiError as error:
            if not (error.conflict or error.not_found or error.status == 422):
                raise
            return [SOON_SECONDS]  # KubeRay wrote first
        return []

    async def may_own(self, key: Key, uid: str, targets: Sequence[Target]) -> bool:
        """Return True if this owner still exists, before its objects are created or taken over.

        Each kind has its own watch, and one may be ahead of another. An object without an owner may just be
        orphaned by a deletion that the watch of owners has not reported yet. Only the API server knows.

        A missing object that existed before may have been deleted with its owner. A missing object that never
        existed belongs to a deleted owner only if the deletion happened without a watch. The garbage
        collector would then delete endlessly the objects that the operator creates endlessly.
        """
        orphans = any(
            target.live is not None and not is_controlled_by(target.live, uid) for target in targets
        )
        missing = [target.desired for target in targets if target.live is None]
        lost = any(self._cache.lost(of(desired), key_of(desired)) for desired in missing)
        stale = bool(missing) and self._cache.age(self._resource, key) > FRESH_SECONDS
        if not orphans and not lost and not stale:
            return True
        found = await status.read(self._api, self._resource, key)
        if found is None:
            self._cache.forget(self._resource, key)
            return False
        self._cache.put(self._resource, found)
        metadata = found["metadata"]
        return bool(metadata["uid"] == uid and not metadata.get("deletionTimestamp"))

    async def write(
        self, key: Key, manifest: Manifest, status: StatusModel, news: News, now: datetime
    ) -> StatusWrite:
        """Write a changed status of this object version, and post events for the changes."""
        before = mapping(manifest.get("status"))
        after = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        if before != after:
            if not await self.write_status(key, manifest, after):
                return StatusWrite(before, after, gone=True)
            await self.notify(manifest, news(before, after), now)
        return StatusWrite(before, after)

    async def write_status(self, key: Key, manifest: Manifest, after: Mapping[str, Any]) -> bool:
        """Write `after` as the status of this object version. Return False if the object is gone."""
        self.check()
        try:
            await status.write_status(self._api, self._cache, self._resource, manifest, after)
        except ApiError as error:
            if error.not_found:
                self._cache.forget(self._resource, key)
                return False
            raise
        metrics.WRITES.labels("status").inc()
        return True

    async def notify(self, manifest: Manifest, events: Iterable[Event], now: datetime) -> None:
        """Post events. A failure loses no facts, because the status is already written."""
        for event in events:
            try:
                await status.emit(
                    self._api,
                    self._resource,
                    manifest,
                    warning=event.warning,
                    reason=event.reason,
                    action=event.action,
                    note=event.note,
                    now=now,
                )
            except ApiError as error:
                log.warning(
                    "Failed to post event",
                    kind=self._resource.kind,
                    object=str(key_of(manifest)),
                    reason=event.reason,
                    error=str(error),
                )
