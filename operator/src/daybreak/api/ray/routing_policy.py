"""Policies that choose a replica for a request."""

from enum import StrEnum


class RoutingPolicy(StrEnum):
    """Policies of the gateway, and Ray Serve's request routers that need no package other than Ray."""

    POWER_OF_TWO = "PowerOfTwo"
    ROUND_ROBIN = "RoundRobin"
    SESSION = "Session"
    PREFIX = "Prefix"
