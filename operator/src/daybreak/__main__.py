"""Entry point of the operator, `python -m daybreak`."""

import asyncio
import gc
import logging
import sys
from collections.abc import Awaitable, Callable

import kopf

from daybreak import logs
from daybreak.assembly import KINDS, Listen, assemble
from daybreak.controller.asking.model_client import HttpModelClient, ModelClient
from daybreak.controller.health import HealthServer
from daybreak.gateways.reports import GatewayReports
from daybreak.handlers.registry import registry
from daybreak.kube.client import Api
from daybreak.kube.lease import Lease
from daybreak.settings import InvalidSettings, Settings

COLLECT = (10_000, 10, 10)
"""Thresholds of the garbage collector: 10,000 new objects, and each tenth run for older generations.

With Python's default of 700, the collector repeatedly scans running reconciles and the cache of thousands of
services. This work grows with the number of services and pauses the whole operator.
"""


logger = logging.getLogger(__name__)


async def run(
    settings: Settings,
    client: ModelClient,
    connect: Callable[[], Awaitable[Api]] = Api.connect,
    listen: Listen = GatewayReports,
) -> bool:
    """Run until a signal arrives or the lease is lost. Return False if the lease was lost.

    Args:
        settings: Settings of the operator.
        client: Probes models.
        connect: Connects to the API server.
        listen: Creates the listener for reports of gateways.
    """
    api = await connect()
    # Also set when the operator ends by itself: kopf gives tasks that wait for this event 5 s.
    stop = asyncio.Event()
    lease = Lease(api, settings.operator_namespace, settings.identity)
    operator = assemble(
        api,
        settings.platform,
        lease,
        client,
        engines=settings.engines,
        namespaces=settings.namespaces,
        nodes=settings.watch_nodes,
        on_end=stop.set,
        listen=listen,
    )
    health = HealthServer(operator, settings.http_port)
    await health.start()
    try:
        await kopf.operator(
            registry=registry(operator, KINDS),
            # Without an identity, kopf looks up the user's name, which a container's user may not have.
            identity=settings.identity,  # type: ignore[arg-type]  # a name for text, which kopf keeps private
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            stop_flag=stop,
        )
    finally:
        await health.stop()
        await api.close()
    return not operator.lost


def main() -> int:
    """Run the program and return its exit status."""
    try:
        settings = Settings.from_environment()
    except InvalidSettings as error:
        print(f"daybreak: {error}", file=sys.stderr)
        return 2
    logs.configure(settings.log_level)
    for name, reason in settings.engines.refused.items():
        logger.error("The engine %s of the chart's value `engines` is left out: %s", name, reason)
    # Imported objects are permanent: exclude them from collection, so that the collector does not scan them
    # repeatedly.
    gc.freeze()
    gc.set_threshold(*COLLECT)
    return 0 if asyncio.run(run(settings, HttpModelClient())) else 1


if __name__ == "__main__":
    sys.exit(main())
