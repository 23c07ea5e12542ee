"""Settings of the gateway: environment variables that the operator sets in its pod."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Self

from daybreak.api.common import names
from daybreak.gateway.desired.gates import Ports
from daybreak.gateway.environment import DRAINING_SINCE, WATCHDOG, Environment, InvalidSettings
from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.router.config import RouterConfig

USUAL_MEMORY = 2**30
"""Default memory in bytes: gateway.resources of the chart."""
LARGEST_BODY = 64 * 2**20
"""Maximum bytes of a body that is searched for the model's name, with any amount of memory: the search copies
the body."""


@dataclass(frozen=True)
class Settings:
    """Settings of a gateway pod."""

    namespace: str
    """POD_NAMESPACE: namespace of the served workloads."""
    http_port: int
    """GATEWAY_HTTP_PORT: port of state and metrics."""
    first_port: int
    """GATEWAY_FIRST_PORT: first port of the services."""
    slots: int
    """GATEWAY_SLOTS: maximum number of services."""
    router_port: int
    """GATEWAY_ROUTER_PORT: port of the common address of all models of the namespace."""
    route_ports: range
    """GATEWAY_ROUTE_FIRST_PORT and GATEWAY_ROUTE_SLOTS: ports for routes with dedicated addresses."""
    serve_port: int
    """GATEWAY_SERVE_PORT: port of Serve's proxy in head pods."""
    replica_port: int
    """GATEWAY_REPLICA_PORT: direct port of a replica in worker pods."""
    address: str
    """GATEWAY_ADDRESS: address at which services are reached. Defaults to all addresses of the pod."""
    folder: Path
    """GATEWAY_FOLDER: writable folder that HAProxies and agent share."""
    keys_folder: Path
    """GATEWAY_KEYS_FOLDER: parent of a folder for each mounted Secret with API keys."""
    token_file: Path
    """GATEWAY_TOKEN_FILE: file of the token for the operator; it may be missing."""
    leave_seconds: int
    """GATEWAY_LEAVE_SECONDS: time for which the gateway accepts requests after its termination began, until
    no component sends new ones."""
    drain_seconds: int
    """GATEWAY_DRAIN_SECONDS: time in which held and running requests may then finish."""
    draining_since: float | None
    """GATEWAY_DRAINING_SINCE, set by the keeper: start of the pod's termination on the monotonic clock; None:
    not before this agent was started."""
    log_level: str
    """LOG_LEVEL: debug, info, warning or error."""
    watchdog: int | None = None
    """GATEWAY_WATCHDOG, set by the keeper: file descriptor for heartbeats."""
    memory: int = USUAL_MEMORY
    """Memory limit of HAProxy's container in bytes, as its supervisor reports it."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the environment. Raises InvalidSettings with the variable and its allowed values."""
        env = Environment(environment)
        namespace = env.text("POD_NAMESPACE")
        if not namespace:
            raise InvalidSettings("POD_NAMESPACE is missing: the namespace whose services are served")
        first_port = env.number("GATEWAY_FIRST_PORT", 20000, 1, 65535)
        first_of_routes = env.number("GATEWAY_ROUTE_FIRST_PORT", 19000, 1, 65535)
        routes = env.number("GATEWAY_ROUTE_SLOTS", 0, 0, 65536 - first_of_routes)
        since, watchdog = env.text(DRAINING_SINCE), env.text(WATCHDOG)
        return cls(
            namespace=namespace,
            http_port=env.number("GATEWAY_HTTP_PORT", 9180, 1, 65535),
            first_port=first_port,
            slots=env.number("GATEWAY_SLOTS", 1024, 1, 65536 - first_port),
            router_port=env.number("GATEWAY_ROUTER_PORT", 19999, 1, 65535),
            route_ports=range(first_of_routes, first_of_routes + routes),
            serve_port=env.number("GATEWAY_SERVE_PORT", 8000, 1, 65535),
            replica_port=env.number("GATEWAY_REPLICA_PORT", 8100, 1, 65535),
            address=env.text("GATEWAY_ADDRESS", _every_address()),
            folder=Path(env.folder),
            keys_folder=Path(env.text("GATEWAY_KEYS_FOLDER", "/run/daybreak-keys")),
            token_file=Path(env.text("GATEWAY_TOKEN_FILE", f"{names.GATEWAY_PROOF_FOLDER}/token")),
            leave_seconds=env.leave_seconds,
            drain_seconds=env.drain_seconds,
            draining_since=float(since) if since else None,
            log_level=env.log_level,
            watchdog=int(watchdog) if watchdog else None,
        )

    @property
    def ray_ports(self) -> Ports:
        """Ports of Ray pods."""
        return Ports(serve=self.serve_port, replica=self.replica_port)

    @property
    def haproxy(self) -> GatewayConfig:
        """Configuration of the data path."""
        return GatewayConfig(
            folder=self.folder,
            address=self.address,
            first_port=self.first_port,
            slots=self.slots,
            late_socket=self.router.late_socket,
            late_bytes=self.router.max_body_bytes,
            hold_bytes=held_bytes(self.memory),
            routed_requests=self.router.service_requests,
        )

    @property
    def router(self) -> RouterConfig:
        """Configuration of the common address."""
        return RouterConfig(
            folder=self.folder,
            address=self.address,
            gateway_address=_own_address(self.address),
            port=self.router_port,
            route_ports=self.route_ports,
            budget_bytes=large_bytes(self.memory),
            max_body_bytes=large_body(self.memory),
        )


def held_bytes(limit: int) -> int:
    """Return the bytes of HAProxy's memory for held requests."""
    return 3 * limit // 8


def large_bytes(limit: int) -> int:
    """Return the bytes of HAProxy's memory for large bodies and their responses."""
    return limit // 4


def large_body(limit: int) -> int:
    """Return the maximum size of a body that is searched to its end: the share of one client."""
    return min(LARGEST_BODY, large_bytes(limit) // 4)


def _own_address(address: str) -> str:
    """Return an IPv4 address at which the pod itself reaches a listener on that address."""
    try:
        return str(IPv4Address(address))
    except ValueError:
        return "127.0.0.1"


def _every_address() -> str:
    """Return the wildcard of both address families, or of IPv4 only if the kernel has no IPv6."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
            tried.bind(("::", 0))
    except OSError:
        return "*"
    return "::"
