"""Settings of a replica, from its environment and from Serve's configuration of its deployment."""

import os
from typing import Any

from ray import serve

DEFAULT_PORT = 8100
NOTICE_SECONDS = 8.0
"""Seconds for which a stopping replica serves while its health check fails, so that gateways that probe it
send requests elsewhere. A gateway probes an available server every 20 s, so most have not probed by the end.
They meet a closed port, and send the refused requests elsewhere (`http/listener.py`). No request depends on
this duration."""
_LEAST_WAITING = 1000


def port() -> int:
    """Return the port of the replica; 0 selects a free one."""
    return int(os.environ.get("DAYBREAK_HTTP_PORT", DEFAULT_PORT))


def max_ongoing_requests() -> int:
    """Return the maximum number of concurrent requests.

    Serve changes it in place, so it is read each time.
    """
    return int(_deployment().max_ongoing_requests)


def most_waiting() -> int:
    """Return the maximum number of requests that wait in the replica.

    Each gateway sends at most the limit concurrently, so the waiting ones are the share of the other
    gateways.
    """
    configured = int(_deployment().max_queued_requests)
    return configured if configured >= 0 else max(_LEAST_WAITING, 4 * max_ongoing_requests())


def graceful_shutdown_seconds() -> float:
    """Return the maximum seconds for the requests in progress of a stopping replica."""
    return float(_deployment().graceful_shutdown_timeout_s)


def notice_seconds() -> float:
    """Return the seconds of service while stopping: at most a third of Serve's total time."""
    return min(NOTICE_SECONDS, graceful_shutdown_seconds() / 3)


def _deployment() -> Any:
    return serve.get_replica_context()._deployment_config
