"""Choice of a model's replica for a request, by the gateway or by Ray Serve."""

from typing import Annotated

from pydantic import Field

from daybreak.api.ray.routing_policy import RoutingPolicy
from daybreak.api.schema.base import ApiModel, Rule


class PrefixRouting(ApiModel):
    """Settings of policy `Prefix`.

    All except `imbalancedThreshold` belong to Ray Serve LLM's PrefixCacheAffinityRouter, and apply only with
    `runtime.directIngress: false`.
    """

    rules = (
        Rule(
            "self.evictionTargetChars <= self.evictionThresholdChars",
            "prefix.evictionTargetChars must not be above prefix.evictionThresholdChars",
            lambda self: self.eviction_target_chars <= self.eviction_threshold_chars,
        ),
    )

    imbalanced_threshold: Annotated[int, Field(ge=0, le=1_000_000)] = 16
    """Maximum number of requests by which the busiest replica may exceed the least busy one before load
    overrides the prefix. In the gateway, the prefix's own replica is compared instead of the busiest.
    Ray's own default has no limit: the one replica that has served a common prefix then receives all
    requests with that prefix."""
    match_rate_threshold: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Minimum part of a prompt that a replica must have received before. Below it, Serve chooses the
    replica that has received the least text."""
    eviction_threshold_chars: Annotated[int, Field(ge=1, le=1_000_000_000)] = 400_000
    """Maximum number of prompt characters that the router remembers; it then drops the oldest. Ray's
    own default drops none, so the head's memory grows without bound."""
    eviction_target_chars: Annotated[int, Field(ge=0, le=1_000_000_000)] = 360_000
    """Number of characters that remain after the router drops the oldest."""


class SessionRouting(ApiModel):
    """Settings of policy `Session`."""

    fallback_replicas: Annotated[int, Field(ge=0, le=100)] = 2
    """Number of other replicas to try in turn if a session's own replica is full. In the gateway, a
    replica also counts as full if it has 25 % more requests than the mean and at least 8. If all of them
    are full, the gateway uses the least busy replica. With 0, the session waits for its own replica."""
    virtual_nodes: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Number of points of each replica on the hash ring of Ray Serve's ConsistentHashRouter; more points
    spread sessions more evenly. Applies only with `runtime.directIngress: false`, because the gateway
    needs no ring."""


class Routing(ApiModel):
    """Choice of a model's replica for a request.

    The gateway chooses, because it knows all replicas; with `runtime.directIngress: false`, Ray Serve
    chooses. A change restarts the replicas in the same pods, because Serve's router lives as long as its
    application.
    """

    rules = (
        Rule(
            "!has(self.prefix) || self.policy == 'Prefix'",
            "routing.prefix belongs to policy Prefix",
            lambda self: self.prefix is None or self.policy is RoutingPolicy.PREFIX,
        ),
        Rule(
            "!has(self.session) || self.policy == 'Session'",
            "routing.session belongs to policy Session",
            lambda self: self.session is None or self.policy is RoutingPolicy.SESSION,
        ),
    )

    policy: RoutingPolicy
    """Routing policy. `PowerOfTwo`, Serve's default: the less busy of two random replicas; the gateway
    uses the least busy of all. `RoundRobin`: each replica in turn. `Session`: the same replica for the
    same `x-session-id` header, or the least busy replica without it. `Prefix`: the same replica for the
    same beginning of the prompt, for generated text only. In the gateway, the beginning is 1,024 bytes of
    the system prompt and of the first other message, or of a plain prompt. Serve uses the replica that has
    received the longest part of the prompt."""
    prefix: PrefixRouting | None = None
    """Settings of policy `Prefix`."""
    session: SessionRouting | None = None
    """Settings of policy `Session`."""
