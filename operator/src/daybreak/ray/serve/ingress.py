"""The ingress deployment, which serves OpenAI's API and forwards each request to its model's replicas.

The ingress runs on the head, and stays up while models have no replicas. Thus requests can wait there for a
model to wake, and no worker pod with accelerators runs only for the ingress. Every Serve proxy forwards to
it, also those in worker pods.

With `runtime.directIngress`, the default, tokens bypass the ingress. The gateway sends requests to the
replicas' own ports, and the ingress serves only requests through Serve's proxy. Without it, every token
passes through the ingress. One process reaches its limit at about 45 chat requests per second (64 concurrent
streams of some 114 tokens each). Therefore the head's CPUs and memory determine the maximum number of
processes, with at least one.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.ray.runtime import HeadResources
from daybreak.api.schema.scalars import parse_quantity

_GIB = 2**30
_BASE_MEMORY = 3 * _GIB
"""Memory of the head in addition to the ingress: Ray's control store, dashboard, Serve controller and proxy.
Measured: 2.6 GiB."""
_PROCESS_MEMORY = 1.25 * _GIB
"""Memory of one ingress process. Measured: 1,174 MiB."""
_TARGET_ONGOING_REQUESTS = 48
"""Number of requests in progress per process above which another process starts. A process with 64 is
full."""


def placement() -> dict[str, Any]:
    """Return the options that bind the ingress to the head, which offers no CPUs to Ray."""
    return {"ray_actor_options": {"num_cpus": 0, "resources": {names.HEAD_RESOURCE: 0.001}}}


def scaling(head: HeadResources) -> dict[str, Any]:
    """Return the ingress's entry in Serve's deployment options."""
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
