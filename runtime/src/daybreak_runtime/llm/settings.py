"""What a replica is told: by its environment, and by Serve's configuration of its deployment."""

import os
from typing import Any

from ray import serve

DEFAULT_PORT = 8100
NOTICE_SECONDS = 8.0
"""How long a replica that stops serves on while it says that it does not, so that a gateway that asks then
sends elsewhere by itself. A gateway asks a server that is up every 20 s, so most have not asked when this
is over: they meet a closed port, and send elsewhere what was refused (`http/listener.py`). No request hangs
on how long it is."""
_LEAST_WAITING = 1000


def port() -> int:
    """The port of the replica; 0 takes a free one."""
    return int(os.environ.get("DAYBREAK_HTTP_PORT", DEFAULT_PORT))


def max_ongoing_requests() -> int:
    """Most requests at once. Serve changes it in place, so it is asked each time."""
    return int(_deployment().max_ongoing_requests)


def most_waiting() -> int:
    """Most requests that wait for their turn in the replica.

    Each gateway sends no more at once than the limit, so those that wait are the other gateways' share of it.
    """
    configured = int(_deployment().max_queued_requests)
    return configured if configured >= 0 else max(_LEAST_WAITING, 4 * max_ongoing_requests())


def graceful_shutdown_seconds() -> float:
    """How long a replica that stops may take for the requests in progress."""
    return float(_deployment().graceful_shutdown_timeout_s)


def notice_seconds() -> float:
    """How long to serve on while it says that it stops: a third of what Serve gives it for all, at most."""
    return min(NOTICE_SECONDS, graceful_shutdown_seconds() / 3)


def _deployment() -> Any:
    return serve.get_replica_context()._deployment_config
