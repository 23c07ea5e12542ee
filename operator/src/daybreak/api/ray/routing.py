"""How a replica of a model is chosen for a request: by the gateway, or by Ray Serve."""

from typing import Annotated

from pydantic import Field

from daybreak.api.ray.routing_policy import RoutingPolicy
from daybreak.api.schema.base import ApiModel, Rule


class PrefixRouting(ApiModel):
    """Settings of policy Prefix. All but `imbalancedThreshold` are of Ray Serve LLM's
    PrefixCacheAffinityRouter, and act only with `runtime.directIngress: false`."""

    rules = (
        Rule(
            "self.evictionTargetChars <= self.evictionThresholdChars",
            "prefix.evictionTargetChars must not be above prefix.evictionThresholdChars",
            lambda self: self.eviction_target_chars <= self.eviction_threshold_chars,
        ),
    )

    imbalanced_threshold: Annotated[int, Field(ge=0, le=1_000_000)] = 16
    """By how many requests the busiest replica (in the gateway: the prefix's own) may be ahead of the idlest
    before load counts more than the prefix. (Ray's own default has no limit: the one replica that knows a
    common prefix then gets it all.)"""
    match_rate_threshold: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Part of a prompt that a replica must have seen. Below it the replica that has seen least is chosen."""
    eviction_threshold_chars: Annotated[int, Field(ge=1, le=1_000_000_000)] = 400_000
    """Characters of prompts that are remembered, after which the oldest are forgotten. (By Ray's own default
    nothing is ever forgotten, and memory of the head grows without end.)"""
    eviction_target_chars: Annotated[int, Field(ge=0, le=1_000_000_000)] = 360_000
    """Characters that are left then."""


class SessionRouting(ApiModel):
    """Settings of policy Session."""

    fallback_replicas: Annotated[int, Field(ge=0, le=100)] = 2
    """Other replicas that are tried in turn when a session's own takes no more requests, or (in the gateway)
    has a quarter more than the mean and at least 8. When none of them does, the gateway asks the least busy
    replica. 0: the session waits for its own."""
    virtual_nodes: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Points of each replica on the hash ring of Ray Serve's ConsistentHashRouter; more spread the sessions
    more evenly. Acts only with `runtime.directIngress: false`: the gateway needs no ring."""


class Routing(ApiModel):
    """How a replica is chosen among those of a model: by the gateway, which knows all of them, or with
    `runtime.directIngress: false` by Ray Serve. A change of it restarts the replicas, in the same pods:
    Serve's router lives as long as its application."""

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
    """`PowerOfTwo`: the less busy one of two at random, which is Serve's default; the gateway takes the least
    busy one of all. `RoundRobin`: each in turn. `Session`: the same replica for the same `x-session-id`
    header, the least busy one without it. `Prefix`: the same replica for the same beginning of the prompt
    (the gateway: 1,024 bytes of the system's words and of the first other message, or of a plain prompt), or
    with Serve the replica that has seen the longest part of the prompt; for text that is generated only."""
    prefix: PrefixRouting | None = None
    """Settings of `Prefix`."""
    session: SessionRouting | None = None
    """Settings of `Session`."""
