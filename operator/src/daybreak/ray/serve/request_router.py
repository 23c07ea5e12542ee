"""Ray Serve's request router of a model: `request_router_config`, for what goes through Serve's own proxy.

It stands in both halves of Serve's configuration. In the arguments, because a router is made once and kept:
only an application that is built anew gets another one. Among the deployment's options, because Serve's
controller then takes the class as the build task has pickled it. From the arguments alone the controller
would import it by name whenever other options change, and PrefixCacheAffinityRouter imports all of vLLM.
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
"""A test holds these, and the arguments below, to the pinned Ray."""


def config(routing: Routing) -> dict[str, Any]:
    """What Serve is told of the policy."""
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
