"""The gateway's settings: environment variables, set by the operator in the gateway's pod."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from daybreak.gateway.agent.fullness import memory
from daybreak.gateway.agent.wanted import Ports
from daybreak.gateway.hold.config import GatewayConfig
from daybreak.gateway.router.router import RouterConfig

USUAL_MEMORY = 2**30
"""Bytes: gateway.resources of the chart."""

LOG_LEVELS = ("debug", "info", "warning", "error")


class InvalidSettings(ValueError):
    """An environment variable that is missing, or has a value that means nothing."""


@dataclass(frozen=True)
class Settings:
    """What can be set of a gateway pod."""

    namespace: str
    """POD_NAMESPACE: the namespace whose services it stands before."""
    http_port: int
    """GATEWAY_HTTP_PORT: port of state, health and metrics."""
    first_port: int
    """GATEWAY_FIRST_PORT: the first of the services' ports."""
    slots: int
    """GATEWAY_SLOTS: how many services there can be."""
    router_port: int
    """GATEWAY_ROUTER_PORT: port of the address that all models of the namespace share."""
    serve_port: int
    """GATEWAY_SERVE_PORT: where Serve's proxy listens in head pods."""
    replica_port: int
    """GATEWAY_REPLICA_PORT: where a replica's own server listens in worker pods."""
    address: str
    """GATEWAY_ADDRESS: the address that services are reached at; `*` is every one."""
    folder: Path
    """GATEWAY_FOLDER: a private, writable folder."""
    keys_folder: Path
    """GATEWAY_KEYS_FOLDER: below it, a folder for each mounted Secret with API keys."""
    leave_seconds: int
    """GATEWAY_LEAVE_SECONDS: how long it still takes requests after it was told to end, until nobody sends
    it new ones any more."""
    drain_seconds: int
    """GATEWAY_DRAIN_SECONDS: how long who is held or streams may then finish."""
    log_level: str
    """LOG_LEVEL: debug, info, warning or error."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the environment. Raises InvalidSettings, naming the variable and what it takes."""

        def text(name: str, default: str = "") -> str:
            return environment.get(name, "").strip() or default

        def number(name: str, default: int, least: int, most: int) -> int:
            value = text(name, str(default))
            if not value.isdecimal() or not least <= int(value) <= most:
                raise InvalidSettings(f"{name} is {value!r}: use a number from {least} to {most}")
            return int(value)

        namespace = text("POD_NAMESPACE")
        if not namespace:
            raise InvalidSettings("POD_NAMESPACE is missing: the namespace whose services are served")
        log_level = text("LOG_LEVEL", "info").lower()
        if log_level not in LOG_LEVELS:
            raise InvalidSettings(f"LOG_LEVEL is {log_level!r}: use one of {', '.join(LOG_LEVELS)}")
        first_port = number("GATEWAY_FIRST_PORT", 20000, 1, 65535)
        return cls(
            namespace=namespace,
            http_port=number("GATEWAY_HTTP_PORT", 9180, 1, 65535),
            first_port=first_port,
            slots=number("GATEWAY_SLOTS", 1024, 1, 65536 - first_port),
            router_port=number("GATEWAY_ROUTER_PORT", 19999, 1, 65535),
            serve_port=number("GATEWAY_SERVE_PORT", 8000, 1, 65535),
            replica_port=number("GATEWAY_REPLICA_PORT", 8100, 1, 65535),
            address=text("GATEWAY_ADDRESS", "*"),
            folder=Path(text("GATEWAY_FOLDER", "/run/daybreak-gateway")),
            keys_folder=Path(text("GATEWAY_KEYS_FOLDER", "/run/daybreak-keys")),
            leave_seconds=number("GATEWAY_LEAVE_SECONDS", 5, 0, 3600),
            drain_seconds=number("GATEWAY_DRAIN_SECONDS", 300, 0, 86400),
            log_level=log_level,
        )

    @property
    def ray_ports(self) -> Ports:
        """Where Ray pods listen."""
        return Ports(serve=self.serve_port, replica=self.replica_port)

    @property
    def memory(self) -> int:
        """Bytes that the pod may use, by its control group; what the chart gives where nobody says."""
        return memory()[1] or USUAL_MEMORY

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
        )

    @property
    def router(self) -> RouterConfig:
        """What the address that all models share needs of it."""
        return RouterConfig(
            folder=self.folder,
            address=self.address,
            port=self.router_port,
            budget_bytes=large_bytes(self.memory),
        )


def held_bytes(limit: int) -> int:
    """What held requests may take of a pod's memory."""
    return 3 * limit // 8


def large_bytes(limit: int) -> int:
    """What large bodies and their answers may take of it."""
    return limit // 4
