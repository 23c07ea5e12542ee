"""The policies by which a replica is chosen for a request."""

from enum import StrEnum


class RoutingPolicy(StrEnum):
    """What the gateway can do, and Ray Serve's request routers that need nothing beside Ray."""

    POWER_OF_TWO = "PowerOfTwo"
    ROUND_ROBIN = "RoundRobin"
    SESSION = "Session"
    PREFIX = "Prefix"
