"""`python -m daybreak`: the operator."""

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
"""When garbage is collected: after so many new objects, and each tenth time among older ones. With Python's
700 the reconciles that are under way are gone through over and over, and all that is known of thousands of
services with them: work that grows with their number, in pauses of the whole operator."""


logger = logging.getLogger(__name__)


async def run(
    settings: Settings,
    client: ModelClient,
    connect: Callable[[], Awaitable[Api]] = Api.connect,
    listen: Listen = GatewayReports,
) -> bool:
    """Run until a signal, or until the lease is lost. Returns whether the end was a wanted one.

    Args:
        settings: What can be set.
        prober: Asks models.
        connect: Connects to the API server.
        listen: Makes what listens to gateways.
    """
    api = await connect()
    # Set by the operator's end too, however it comes: kopf gives those who wait for this 5 seconds.
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
            # kopf would ask for the user's name, which a container's user need not have.
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
    """The program. Returns its exit status."""
    try:
        settings = Settings.from_environment()
    except InvalidSettings as error:
        print(f"daybreak: {error}", file=sys.stderr)
        return 2
    logs.configure(settings.log_level)
    for name, reason in settings.engines.refused.items():
        logger.error("The engine %s of the chart's value `engines` is left out: %s", name, reason)
    # What the imports have made stays for good: the collector need not go through all of it again and again.
    gc.freeze()
    gc.set_threshold(*COLLECT)
    return 0 if asyncio.run(run(settings, HttpModelClient())) else 1


if __name__ == "__main__":
    sys.exit(main())
