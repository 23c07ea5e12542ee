"""The gateway's settings: environment variables, set by the operator in the gateway's pod."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Self

from daybreak.api.common import names
from daybreak.gateway.environment import DRAINING_SINCE, WATCHDOG, Environment, InvalidSettings
from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.router.config import RouterConfig
from daybreak.gateway.wanted.gates import Ports

USUAL_MEMORY = 2**30
"""Bytes: gateway.resources of the chart."""
LARGEST_BODY = 64 * 2**20
"""Bytes of the largest body that is searched for its model's name, however much memory there is: it is copied
while it is searched."""


@dataclass(frozen=True)
class Settings:
    """What can be set of a gateway pod."""

    namespace: str
    """POD_NAMESPACE: the namespace whose services it stands before."""
    http_port: int
    """GATEWAY_HTTP_PORT: port of state and metrics."""
    first_port: int
    """GATEWAY_FIRST_PORT: the first of the services' ports."""
    slots: int
    """GATEWAY_SLOTS: how many services there can be."""
    router_port: int
    """GATEWAY_ROUTER_PORT: port of the address that all models of the namespace share."""
    route_ports: range
    """GATEWAY_ROUTE_FIRST_PORT and GATEWAY_ROUTE_SLOTS: ports for routes with addresses of their own."""
    serve_port: int
    """GATEWAY_SERVE_PORT: where Serve's proxy listens in head pods."""
    replica_port: int
    """GATEWAY_REPLICA_PORT: where a replica's own server listens in worker pods."""
    address: str
    """GATEWAY_ADDRESS: the address that services are reached at; by itself every one that the pod has."""
    folder: Path
    """GATEWAY_FOLDER: a writable folder, which HAProxies and agent share."""
    keys_folder: Path
    """GATEWAY_KEYS_FOLDER: below it, a folder for each mounted Secret with API keys."""
    token_file: Path
    """GATEWAY_TOKEN_FILE: the token that it shows to the operator; it need not be there."""
    leave_seconds: int
    """GATEWAY_LEAVE_SECONDS: how long it still takes requests after it was told to end, until nobody sends
    it new ones any more."""
    drain_seconds: int
    """GATEWAY_DRAIN_SECONDS: how long what is held or streams may then finish."""
    draining_since: float | None
    """GATEWAY_DRAINING_SINCE, set by the keeper: when the pod was told to end, on the monotonic clock;
    None: not before this agent was started."""
    log_level: str
    """LOG_LEVEL: debug, info, warning or error."""
    watchdog: int | None = None
    """GATEWAY_WATCHDOG, set by the keeper: the file descriptor where it hears that the agent lives."""
    memory: int = USUAL_MEMORY
    """Bytes that HAProxy's container may use: its supervisor knows, and says so."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the environment. Raises InvalidSettings, naming the variable and what it takes."""

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
        """Where Ray pods listen."""
        return Ports(serve=self.serve_port, replica=self.replica_port)

    @property
    def haproxy(self) -> GatewayConfig:
        """What the data path needs of it."""
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
        """What the address that all models share needs of it."""
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
    """What held requests may take of HAProxy's memory."""
    return 3 * limit // 8


def large_bytes(limit: int) -> int:
    """What large bodies and their answers may take of it."""
    return limit // 4


def large_body(limit: int) -> int:
    """Return the largest body that is searched to its end: as much as one client may keep."""
    return min(LARGEST_BODY, large_bytes(limit) // 4)


def _own_address(address: str) -> str:
    """Return an IPv4 address at which the pod itself reaches what listens on that address."""
    try:
        return str(IPv4Address(address))
    except ValueError:
        return "127.0.0.1"


def _every_address() -> str:
    """Every address of both families; of IPv4 alone where the kernel has no IPv6."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tried:
            tried.bind(("::", 0))
    except OSError:
        return "*"
    return "::"
