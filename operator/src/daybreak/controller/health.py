"""HTTP port of the operator, with its liveness, readiness and metrics."""

import asyncio
from collections.abc import Sequence

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from daybreak.controller.operator import Operator

STUCK_SECONDS = 180.0
"""Time in seconds after which the queue is stuck if one reconcile does not end or none starts."""
LAG_SECONDS = 30.0
"""Maximum delay of a timer in seconds. A slower event loop does no other work in time either."""


def unhealthy(operator: Operator) -> str:
    """Return the reason to restart the operator, or an empty text if it works."""
    stuck = operator.queue.stuck()
    if stuck > STUCK_SECONDS:
        return f"the queue has not moved for {stuck:.0f} s"
    if operator.lag > LAG_SECONDS:
        return f"the event loop is {operator.lag:.0f} s late"
    return ""


async def metrics_page(names: Sequence[str] = ()) -> bytes:
    """Return the metrics in Prometheus' text format, rendered in a thread: 5,000 services take 0.2 s.

    Args:
        names: Names of the series to render, such as `daybreak_writes_total`; if empty, all.
    """
    registry = REGISTRY.restricted_registry(names) if names else REGISTRY
    return await asyncio.to_thread(generate_latest, registry)


class HealthServer:
    """Server of `/healthz` (liveness), `/readyz` (readiness) and `/metrics`.

    The operator is ready if it works or waits for the lease as expected: in both cases nothing needs repair.
    """

    def __init__(self, operator: Operator, port: int) -> None:
        self._operator = operator
        self._port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Start to listen."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._metrics),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, None, self._port).start()

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        why = unhealthy(self._operator)
        return web.Response(status=503 if why else 200, text=why or "ok")

    async def _readyz(self, _: web.Request) -> web.Response:
        ready, held = self._operator.ready.is_set(), self._operator.lease.held
        if ready and held:
            return web.Response(text="ok")
        if ready:
            return web.Response(status=503, text="the lease cannot be renewed")
        if held:
            return web.Response(status=503, text="reading what is in the cluster")
        return web.Response(text="standing by: another operator holds the lease")

    async def _metrics(self, request: web.Request) -> web.Response:
        page = await metrics_page(request.query.getall("name[]", []))
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST})
