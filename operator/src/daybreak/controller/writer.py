"""What a reconcile writes for an object of a kind: what it owns, its status and its events."""

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
"""How long after an owner was last heard of it is believed to be there. Of thousands that are made at
once the last ones wait for minutes, and for each of them a question would be one request more."""

log = structlog.get_logger("daybreak.writer")


@dataclass(frozen=True)
class Applied:
    """What came of writing."""

    wrote: bool
    """Whether anything was written."""
    refusal: str = ""
    """What the API server has refused, with its words; empty: nothing."""


class Dumped(Protocol):
    """A status of any kind."""

    def model_dump(self, *, mode: str, by_alias: bool, exclude_none: bool) -> dict[str, Any]:
        """The status in plain values."""
        ...


@dataclass(frozen=True)
class Said:
    """What came of saying a status."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    gone: bool = False
    """Whether the object was not there any more."""

    @property
    def new(self) -> bool:
        """Whether something else was said than before."""
        return not self.gone and self.before != self.after


News = Callable[[Mapping[str, Any], Mapping[str, Any]], Iterable[Event]]
"""What of a change of a status, before and after, is worth an event."""


class Writer:
    """Writes for the objects of one kind, as long as the lease is held.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        applier: Writes owned objects.
        resource: The kind of the owners.
        may_act: Whether the lease is held this moment.
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
        """Raise LeaseLost when nothing may be written any more."""
        if not self._may_act():
            raise LeaseLost

    async def carry_out(
        self, key: Key, uid: str, plan: Plan, *, surplus_first: bool = False
    ) -> Applied | None:
        """Make an owner's objects what a plan says; None: the owner is gone, and nothing was done.

        Args:
            key: The owner's.
            uid: Which of that name it is.
            plan: What is to be.
            surplus_first: Whether what it does not have any more goes first, whatever is refused then; else
                it goes when everything else has come.
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
        """Write what differs, up to the first object that is refused."""
        wrote = False
        for target in targets:
            self.check()
            try:
                if await self._applier.apply(target.wanted, target.live):
                    metrics.WRITES.labels(target.wanted["kind"]).inc()
                    wrote = True
            except ApiError as error:
                if not error.refused:
                    raise
                refusal = f"{target.wanted['kind']} {target.wanted['metadata']['name']}: {error.message}"
                return Applied(wrote, refusal)
        return Applied(wrote)

    async def delete(self, surplus: Iterable[Manifest]) -> bool:
        """Delete what is not wanted any more. Returns whether there was anything."""
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
        """Carry bounds of worker groups into RayClusters, by their names. Returns when to look again."""
        again = []
        for cluster in clusters:
            wanted = bounds.get(cluster["metadata"]["name"])
            if wanted is None:
                continue
            self.check()
            try:
                if await scale.set_bounds(self._api, self._cache, cluster, wanted):
                    metrics.WRITES.labels(RAY_CLUSTERS.kind).inc()
            except ApiError as error:
                if not (error.conflict or error.not_found or error.status == 422):
                    raise
                again.append(SOON_SECONDS)  # the autoscaler or KubeRay was quicker
        return again

    async def delete_clusters(self, clusters: Iterable[Manifest]) -> list[float]:
        """Delete RayClusters that nobody needs any more. Returns when to look again."""
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
        """End the second Ray cluster of a RayService, which bears that name. Returns when to look again."""
        self.check()
        try:
            await upgrades.call_off(self._api, self._cache, ray_service, pending)
            metrics.WRITES.labels(RAY_SERVICES.kind).inc()
        except ApiError as error:
            if not (error.conflict or error.not_found or error.status == 422):
                raise
            return [SOON_SECONDS]  # KubeRay was quicker
        return []

    async def may_own(self, key: Key, uid: str, targets: Sequence[Target]) -> bool:
        """Whether this very owner is still there, where its objects are to be made or taken.

        Each kind has its own watch, and one may be ahead of the other. An object without an owner may be one
        that is being orphaned this moment, by a deletion of which the watch of owners has not told yet: only
        the API server knows. One that was there and is not any more may have been deleted with its owner. One
        that was never there may be made for an owner that has gone only if that was while nobody watched; the
        garbage collector would remove for ever what we make for ever.
        """
        orphans = any(
            target.live is not None and not is_controlled_by(target.live, uid) for target in targets
        )
        missing = [target.wanted for target in targets if target.live is None]
        lost = any(self._cache.lost(of(wanted), key_of(wanted)) for wanted in missing)
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

    async def say(self, key: Key, manifest: Manifest, status: Dumped, news: News, now: datetime) -> Said:
        """Write the status of this object in this version if it has changed, and post what is news of it."""
        before = mapping(manifest.get("status"))
        after = status.model_dump(mode="json", by_alias=True, exclude_none=True)
        if before != after:
            if not await self.write_status(key, manifest, after):
                return Said(before, after, gone=True)
            await self.tell(manifest, news(before, after), now)
        return Said(before, after)

    async def write_status(self, key: Key, manifest: Manifest, after: Mapping[str, Any]) -> bool:
        """Make `after` the status of this object in this version. Returns False when the object is gone."""
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

    async def tell(self, manifest: Manifest, events: Iterable[Event], now: datetime) -> None:
        """Post events; what cannot be posted stands in the status, which is written already."""
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
                    "event not posted",
                    kind=self._resource.kind,
                    object=str(key_of(manifest)),
                    reason=event.reason,
                    error=str(error),
                )
