"""How Ray Serve chooses among the replicas of a model."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.common.base import ApiModel, Rule


class RoutingPolicy(StrEnum):
    """Ray Serve's request routers that need nothing beside Ray."""

    POWER_OF_TWO = "PowerOfTwo"
    ROUND_ROBIN = "RoundRobin"
    SESSION = "Session"
    PREFIX = "Prefix"


class PrefixRouting(ApiModel):
    """Settings of policy Prefix (Ray Serve LLM's PrefixCacheAffinityRouter)."""

    rules = (
        Rule(
            "self.evictionTargetChars <= self.evictionThresholdChars",
            "prefix.evictionTargetChars must not be above prefix.evictionThresholdChars",
            lambda self: self.eviction_target_chars <= self.eviction_threshold_chars,
        ),
    )

    imbalanced_threshold: Annotated[int, Field(ge=0, le=1_000_000)] = 16
    """By how many requests the busiest replica may be ahead of the idlest before load counts more than the
    prefix. (Ray's own default has no limit: the one replica that knows a common prefix then gets it all.)"""
    match_rate_threshold: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Part of a prompt that a replica must have seen. Below it the replica that has seen least is chosen."""
    eviction_threshold_chars: Annotated[int, Field(ge=1, le=1_000_000_000)] = 400_000
    """Characters of prompts that are remembered, after which the oldest are forgotten. (By Ray's own default
    nothing is ever forgotten, and memory of the head grows without end.)"""
    eviction_target_chars: Annotated[int, Field(ge=0, le=1_000_000_000)] = 360_000
    """Characters that are left then."""


class SessionRouting(ApiModel):
    """Settings of policy Session (Ray Serve's ConsistentHashRouter)."""

    fallback_replicas: Annotated[int, Field(ge=0, le=100)] = 2
    """Other replicas that are tried in turn when a session's own takes no more requests. 0: it waits."""
    virtual_nodes: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Points of each replica on the hash ring; more spread the sessions more evenly."""


class Routing(ApiModel):
    """How Ray Serve chooses among a model's replicas. A change of it restarts them, in the same pods: a
    router lives as long as its application."""

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
    """`PowerOfTwo`: the less busy one of two at random, which is Serve's default. `RoundRobin`: each in turn.
    `Session`: the same replica for the same `x-session-id` header. `Prefix`: the replica that has seen the
    longest part of the prompt, for chat and completions only."""
    prefix: PrefixRouting | None = None
    """Settings of `Prefix`."""
    session: SessionRouting | None = None
    """Settings of `Session`."""
