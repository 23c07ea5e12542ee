"""One reconcile of all routes of a namespace, which share its names: observe → decide → status."""

from collections.abc import Callable
from datetime import UTC, datetime

from daybreak.api.llmroute.definition import LLM_ROUTES
from daybreak.controller.writer import Writer
from daybreak.kinds.llmroute.decide.decision import Decision, decide
from daybreak.kinds.llmroute.observe.observed import SeenRoute
from daybreak.kinds.llmroute.observe.observer import Observer
from daybreak.kinds.llmroute.status.report import again, events, report
from daybreak.kube.apply import Applier
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError


class Reconciler:
    """Says of the routes of a namespace which names lead where.

    Args:
        api: The API server.
        cache: What is known of the cluster.
        observer: Reads it.
        applier: Writes objects; a route has none.
        may_act: Whether the lease is held this moment.
    """

    def __init__(
        self, api: Api, cache: Cache, observer: Observer, applier: Applier, may_act: Callable[[], bool]
    ) -> None:
        self._observer = observer
        self._writer = Writer(api, cache, applier, LLM_ROUTES, may_act)

    async def reconcile(self, namespace: str) -> float | None:
        """Write the statuses that have changed. Raises the last error when one could not be written.

        Returns when there is something to write again, in seconds; None: at a change.
        """
        seen, now = self._observer.observe(namespace), datetime.now(UTC)
        decisions = decide(seen, now)
        waits = [wait for each in seen.routes if (wait := again(each, decisions[each.name], now))]
        failed: ApiError | None = None
        for each in seen.routes:
            try:
                await self._say(each, decisions[each.name], now)
            except ApiError as error:  # the others are told all the same
                failed = error
        if failed is not None:
            raise failed
        return min(waits, default=None)

    async def _say(self, each: SeenRoute, decision: Decision, now: datetime) -> None:
        """Write the status if it has changed, and post what has turned."""
        metadata = each.manifest["metadata"]
        before = each.manifest.get("status") or {}
        after = report(each, decision, now)
        plain = after.model_dump(mode="json", by_alias=True, exclude_none=True)
        if before == plain:
            return
        if await self._writer.write_status(Key(metadata["namespace"], each.name), each.manifest, plain):
            await self._writer.tell(each.manifest, events(before, after), now)
