"""The deployment that speaks OpenAI's API and hands each request to its model's replicas.

It runs on the head, and stays up while models are at zero: then a request finds somebody who can wait for
the model to wake, and no worker pod (with its accelerators) is kept or added only for it. Every Serve proxy
forwards to it, also those in worker pods.

With `runtime.directIngress`, the default, tokens go past it: the gateway asks replicas at their own port, and
the ingress takes what comes by Serve's proxy. Without it every token goes through it, and one process is full
at about 45 requests a second of chat (64 streams at once, of some 114 tokens each), so the head's cores and
memory set how many there may be; the first is always there.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.ray.runtime import HeadResources
from daybreak.api.schema.scalars import parse_quantity

_GIB = 2**30
_BASE_MEMORY = 3 * _GIB
"""Memory of the head beside the ingress: Ray's control store, dashboard, Serve controller and proxy.
Measured: 2.6 GiB."""
_PROCESS_MEMORY = 1.25 * _GIB
"""Memory of one ingress process. Measured: 1,174 MiB."""
_TARGET_ONGOING_REQUESTS = 48
"""Requests in progress for each process, above which another one is started: one that has 64 is full."""


def placement() -> dict[str, Any]:
    """Options of the ingress that bind it to the head, which offers no cores to Ray."""
    return {"ray_actor_options": {"num_cpus": 0, "resources": {names.HEAD_RESOURCE: 0.001}}}


def scaling(head: HeadResources) -> dict[str, Any]:
    """The ingress's entry among Serve's deployment options."""
    return {
        "name": names.INGRESS_DEPLOYMENT,
        "autoscaling_config": {
            "min_replicas": 1,
            "max_replicas": _most_processes(head),
            "target_ongoing_requests": _TARGET_ONGOING_REQUESTS,
        },
    }


def _most_processes(head: HeadResources) -> int:
    by_cores = int(parse_quantity(head.cpu))
    by_memory = int((float(parse_quantity(head.memory)) - _BASE_MEMORY) / _PROCESS_MEMORY)
    return max(1, min(by_cores, by_memory))
