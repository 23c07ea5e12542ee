"""HTTP server of the agent: the state for the operator, and metrics."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from daybreak.api.common import names
from daybreak.gateway.agent.agent import Agent
from daybreak.gateway.agent.metrics import RouteMetrics, ServiceMetrics


class AgentServer:
    """Server of `/state` (one line of JSON for each change) and `/metrics`."""

    def __init__(self, agent: Agent, port: int, token_file: Path) -> None:
        self._agent = agent
        self._token_file = token_file
        self._port = port
        self._runner: web.AppRunner | None = None
        self._registry = CollectorRegistry()
        self._registry.register(ServiceMetrics(agent.feed))
        self._registry.register(agent.fullness)
        self._registry.register(agent.enforcement)
        self._registry.register(RouteMetrics(lambda: agent.shared))

    async def start(self) -> None:
        """Start listening."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/state", self._state),
                web.get("/metrics", self._metrics),
            ]
        )
        # State streams never end by themselves: nothing is lost when they are cut at the end.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, None, self._port).start()

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _state(self, request: web.Request) -> web.StreamResponse:
        if not self._agent.programmed:
            # A service that is not configured yet would look idle.
            return web.Response(status=503, text=self._agent.unready or "not ready")
        headers = {"Content-Type": "application/x-ndjson"}
        # The kubelet renews the token in its file. A client that reads it here cannot impersonate a gateway:
        # the token identifies only this pod.
        with contextlib.suppress(OSError):
            headers[names.GATEWAY_PROOF_HEADER] = self._token_file.read_text().strip()
        answer = web.StreamResponse(headers=headers)
        await answer.prepare(request)
        try:
            async for update in self._agent.feed.updates():
                update = replace(
                    update,
                    short=self._agent.fullness.short,
                    enforced=self._agent.enforcement.enforced,
                )
                await answer.write(json.dumps(update.wire(), separators=(",", ":")).encode() + b"\n")
        except ConnectionError:
            pass  # the operator has left
        return answer

    async def _metrics(self, _: web.Request) -> web.Response:
        body = generate_latest(self._registry) + generate_latest()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
