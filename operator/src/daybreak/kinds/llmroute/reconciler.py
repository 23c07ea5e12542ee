"""Reconcile of all routes of a namespace, which share names: observe → plan → apply → decide → status."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from daybreak.api.llmroute.definition import LLMRoute
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.controller.again import FOREIGN_SECONDS, REFUSED_SECONDS, SOON_SECONDS, Again
from daybreak.controller.live import observe_live
from daybreak.controller.writer import Writer
from daybreak.kinds.llmroute.decide.decision import Decision, decide
from daybreak.kinds.llmroute.decide.plan import make_plan, objects
from daybreak.kinds.llmroute.observe.observed import ObservedRoute, OwnAddress
from daybreak.kinds.llmroute.observe.observer import Observer
from daybreak.kinds.llmroute.status.report import again, events, report
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing.apply import Applier, Occupied
from daybreak.manifests.keys import Key
from daybreak.manifests.owner import Owner
from daybreak.manifests.plan import Plan
from daybreak.manifests.resources import OF_ROUTES


class Reconciler:
    """Reconciler that applies the dedicated addresses of a namespace's routes and writes their statuses.

    Args:
        api: The API server.
        cache: Cached objects of the cluster.
        observer: Observer of the cache.
        applier: Writer of owned objects.
        may_act: Return True while the operator holds the lease.
    """

    def __init__(
        self, api: Api, cache: Cache, observer: Observer, applier: Applier, may_act: Callable[[], bool]
    ) -> None:
        self._cache = cache
        self._observer = observer
        self._applier = applier
        self._writer = Writer(api, cache, applier, LLM_ROUTES, may_act)

    async def reconcile(self, namespace: str) -> float | None:
        """Write all changes, and return the seconds until the next reconcile, or None to wait for a change.

        Raises:
            ApiError: The last error, if something could not be written.
        """
        observed, later = self._observer.observe(namespace), Again()
        failed: ApiError | None = None
        routes, unsure = [], set()
        for each in observed.routes:
            try:
                routes.append(await self._address(each, later))
            except ApiError as error:  # the other routes are still reconciled
                routes.append(each)
                unsure.add(each.name)
                failed = error
        observed, now = replace(observed, routes=tuple(routes)), datetime.now(UTC)
        decisions = decide(observed, now)
        for each in (each for each in observed.routes if each.name not in unsure):
            later.after(*(wait for wait in [again(each, decisions[each.name], now)] if wait))
            try:
                await self._write(each, decisions[each.name], now)
            except ApiError as error:
                failed = error
        if failed is not None:
            raise failed
        return later.seconds

    async def _address(self, each: ObservedRoute, later: Again) -> ObservedRoute:
        """Apply the Service of a route, and return the route with the result."""
        route, address = each.route, each.address
        if route is None or (address is not None and address.foreign):
            return each
        address = address or OwnAddress(None)
        owner = Owner(LLM_ROUTES, Key(route.namespace, route.name), route.uid)
        desired = objects(route, address.port)
        live = await observe_live(owner, desired, OF_ROUTES, self._cache, self._applier)
        plan = make_plan(owner, desired, live)
        if plan.foreign:
            later.after(FOREIGN_SECONDS)
            address = replace(address, foreign=plan.foreign[0])
        elif plan.leaving:
            later.after(SOON_SECONDS)
            address = replace(address, leaving=True)
        else:
            address = await self._carry_out(route, address, plan, later)
        return replace(each, address=address) if each.address is not None else each

    async def _carry_out(self, route: LLMRoute, address: OwnAddress, plan: Plan, later: Again) -> OwnAddress:
        """Apply a plan for the route's Service, and return the resulting address."""
        try:
            applied = await self._writer.carry_out(Key(route.namespace, route.name), route.uid, plan)
        except Occupied:  # the next reconcile finds the conflicting owner
            later.at_once()
            return replace(address, leaving=True)
        refusal = applied.refusal if applied is not None else ""
        if refusal:
            later.after(REFUSED_SECONDS)
        there = [target for target in plan.targets if target.live is not None or not refusal]
        return replace(address, refusal=refusal, there=bool(there))

    async def _write(self, each: ObservedRoute, decision: Decision, now: datetime) -> None:
        """Write the status if it has changed, and post the events for its changes."""
        metadata = each.manifest["metadata"]
        before = each.manifest.get("status") or {}
        after = report(each, decision, now)
        plain = after.model_dump(mode="json", by_alias=True, exclude_none=True)
        if before == plain:
            return
        if await self._writer.write_status(Key(metadata["namespace"], each.name), each.manifest, plain):
            await self._writer.notify(each.manifest, events(before, after), now)
