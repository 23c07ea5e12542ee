"""Ray Serve's request router of a model: `request_router_config`, for requests through Serve's own proxy.

The router is in both parts of Serve's configuration. It is in the arguments because a router is created once
and kept: only a rebuilt application gets another one.

It is in the deployment's options because Serve's controller then uses the class that the build task has
pickled. With the arguments alone, the controller would import the class by name whenever other options
change, and PrefixCacheAffinityRouter imports all of vLLM.
"""

from typing import Any

from daybreak.api.ray.routing import PrefixRouting, Routing, SessionRouting
from daybreak.api.ray.routing_policy import RoutingPolicy

_CLASSES = {
    RoutingPolicy.POWER_OF_TWO: "ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter",
    RoutingPolicy.ROUND_ROBIN: "ray.serve.experimental.round_robin_router:RoundRobinRouter",
    RoutingPolicy.SESSION: "ray.serve.experimental.consistent_hash_router:ConsistentHashRouter",
    RoutingPolicy.PREFIX: "ray.serve.llm.request_router:PrefixCacheAffinityRouter",
}
"""Router classes. A test compares these, and the arguments below, with the pinned Ray."""


def config(routing: Routing) -> dict[str, Any]:
    """Return Serve's configuration of a routing policy."""
    return {"request_router_class": _CLASSES[routing.policy], "request_router_kwargs": _arguments(routing)}


def _arguments(routing: Routing) -> dict[str, Any]:
    match routing.policy:
        case RoutingPolicy.PREFIX:
            prefix = routing.prefix or PrefixRouting()
            return {
                "imbalanced_threshold": prefix.imbalanced_threshold,
                "match_rate_threshold": prefix.match_rate_threshold,
                "do_eviction": True,
                "eviction_threshold_chars": prefix.eviction_threshold_chars,
                "eviction_target_chars": prefix.eviction_target_chars,
            }
        case RoutingPolicy.SESSION:
            session = routing.session or SessionRouting()
            return {
                "num_virtual_nodes": session.virtual_nodes,
                "num_fallback_replicas": session.fallback_replicas,
            }
    return {}
