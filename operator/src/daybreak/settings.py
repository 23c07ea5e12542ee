"""Settings of the operator: environment variables, set by the chart."""

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import Field, TypeAdapter, ValidationError

from daybreak import versions
from daybreak.api.modelserver.profiles import Engines, with_own
from daybreak.api.pods import gateway_pods
from daybreak.api.pods.gateway_pods import GatewayPods
from daybreak.api.schema.base import ApiModel, readable
from daybreak.api.schema.scalars import parse_duration
from daybreak.platform import API_SERVER_PORTS, KUBERAY_NAMESPACE, Platform

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST_NODE_WAIT = timedelta(hours=1)
_PEERS = TypeAdapter(list[dict[str, Any]])
LOG_LEVELS = ("debug", "info", "warning", "error")


class InvalidSettings(ValueError):
    """Invalid value of an environment variable."""


class Egress(ApiModel):
    """Permitted egress of pods, if the network enforces NetworkPolicies."""

    gateways: bool = True
    """True if gateways may reach only DNS, the API server and Ray pods of their namespace."""
    api_server_ports: list[Annotated[int, Field(ge=1, le=65535)]] = Field(
        default_factory=lambda: list(API_SERVER_PORTS)
    )
    """TCP ports of the API server, as pods reach it behind its Service."""
    ray_pods: list[dict[str, Any]] = Field(default_factory=list)
    """Rules (`egress` of a NetworkPolicy) for Ray pods. If empty, all egress is permitted."""


@dataclass(frozen=True)
class Settings:
    """Settings of an installation."""

    namespaces: tuple[str, ...]
    """DAYBREAK_NAMESPACE: comma-separated namespaces to watch. Defaults to all."""
    watch_nodes: bool
    """DAYBREAK_WATCH_NODES: true to read nodes for the fit check of replicas. Defaults to true if all
    namespaces are watched."""
    operator_namespace: str
    """DAYBREAK_OPERATOR_NAMESPACE: namespace of the operator and its lease."""
    identity: str
    """POD_NAME: identity of the operator in the lease."""
    kuberay_namespace: str
    """DAYBREAK_KUBERAY_NAMESPACE: namespace of KubeRay's operator. Defaults to kuberay-system."""
    ray_image: str
    """DAYBREAK_RAY_IMAGE: image of Ray pods on accelerators."""
    ray_cpu_image: str
    """DAYBREAK_RAY_CPU_IMAGE: image of Ray pods on the CPU."""
    ray_head_image: str
    """DAYBREAK_RAY_HEAD_IMAGE: image of Ray heads with workers on accelerators. Defaults to the image of the
    workers."""
    network_policy: bool
    """DAYBREAK_NETWORK_POLICY: true to create NetworkPolicies for services."""
    egress: Egress
    """DAYBREAK_EGRESS: permitted egress of gateways and Ray pods, as JSON (the chart's values of
    `networkPolicy.egress`)."""
    gateway_image: str
    """DAYBREAK_GATEWAY_IMAGE: image of gateways. If empty, there are no gateways, and no model sleeps."""
    gateway_pull_secrets: tuple[str, ...]
    """DAYBREAK_GATEWAY_PULL_SECRETS: comma-separated names of pull secrets for the gateway image."""
    gateway_replicas: int
    """DAYBREAK_GATEWAY_REPLICAS: number of gateway pods in each namespace with an LLMService."""
    assigned_users: bool
    """DAYBREAK_ASSIGNED_USERS: true if the platform chooses the users of containers, as OpenShift does."""
    gateway_tokens: bool
    """DAYBREAK_GATEWAY_TOKENS: true if gateways prove their identity by tokens, which the operator has
    reviewed."""
    gateway_pods: GatewayPods
    """DAYBREAK_GATEWAY_PODS: settings of gateway pods, as JSON (the chart's values of `gateway`)."""
    engines: Engines
    """DAYBREAK_ENGINES: custom engines of ModelServers, as JSON (the chart's values of `engines`). The
    attribute also contains the built-in engines. An invalid engine is omitted, and `refused` has the
    reason."""
    engine_metrics_from: tuple[Mapping[str, Any], ...]
    """DAYBREAK_ENGINE_METRICS_FROM: NetworkPolicy peers that may read metrics of ModelServers' engines, as
    JSON (the chart's values of `metrics.engines.allowFrom`)."""
    node_wait: timedelta
    """DAYBREAK_NODE_WAIT: time that a model without free accelerators waits for autoscaled nodes before other
    models yield. A duration such as 3m, at most 1h."""
    log_level: str
    """DAYBREAK_LOG_LEVEL: debug, info, warning or error."""
    http_port: int
    """DAYBREAK_HTTP_PORT: port of health and metrics."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the environment. Raise InvalidSettings with the name of the variable and its valid values."""

        def text(name: str, default: str) -> str:
            return environment.get(f"DAYBREAK_{name}", "").strip() or default

        def flag(name: str, default: str) -> bool:
            value = text(name, default).lower()
            if value not in ("true", "false"):
                raise InvalidSettings(f"DAYBREAK_{name} is {value!r}: use true or false")
            return value == "true"

        log_level = text("LOG_LEVEL", "info").lower()
        if log_level not in LOG_LEVELS:
            raise InvalidSettings(f"DAYBREAK_LOG_LEVEL is {log_level!r}: use one of {', '.join(LOG_LEVELS)}")
        port = text("HTTP_PORT", "8080")
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise InvalidSettings(f"DAYBREAK_HTTP_PORT is {port!r}: use a port between 1 and 65535")
        replicas = text("GATEWAY_REPLICAS", "2")
        if not replicas.isdecimal() or not 0 < int(replicas) < 100:
            raise InvalidSettings(f"DAYBREAK_GATEWAY_REPLICAS is {replicas!r}: use a number from 1 to 99")
        namespaces = _namespaces(text("NAMESPACE", ""))
        return cls(
            namespaces=namespaces,
            watch_nodes=flag("WATCH_NODES", "false" if namespaces else "true"),
            operator_namespace=text(
                "OPERATOR_NAMESPACE", namespaces[0] if len(namespaces) == 1 else "default"
            ),
            identity=environment.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}",
            kuberay_namespace=text("KUBERAY_NAMESPACE", KUBERAY_NAMESPACE),
            ray_image=text("RAY_IMAGE", f"daybreak-ray:{versions.DAYBREAK}"),
            ray_cpu_image=text("RAY_CPU_IMAGE", f"daybreak-ray-cpu:{versions.DAYBREAK}"),
            ray_head_image=text("RAY_HEAD_IMAGE", ""),
            network_policy=flag("NETWORK_POLICY", "true"),
            egress=_egress(text("EGRESS", "{}")),
            gateway_image=text("GATEWAY_IMAGE", ""),
            gateway_pull_secrets=tuple(
                name.strip() for name in text("GATEWAY_PULL_SECRETS", "").split(",") if name.strip()
            ),
            gateway_replicas=int(replicas),
            assigned_users=flag("ASSIGNED_USERS", "false"),
            gateway_tokens=flag("GATEWAY_TOKENS", "false"),
            gateway_pods=_gateway_pods(text("GATEWAY_PODS", "{}")),
            engines=_engines(text("ENGINES", "{}")),
            engine_metrics_from=_peers("ENGINE_METRICS_FROM", text("ENGINE_METRICS_FROM", "[]")),
            node_wait=_node_wait(text("NODE_WAIT", "0s")),
            log_level=log_level,
            http_port=int(port),
        )

    @property
    def platform(self) -> Platform:
        """Settings for the builders of objects."""
        return Platform(
            ray_image=self.ray_image,
            ray_cpu_image=self.ray_cpu_image,
            ray_head_image=self.ray_head_image,
            kuberay_namespace=self.kuberay_namespace,
            network_policy=self.network_policy,
            gateway_egress=self.egress.gateways,
            api_server_ports=tuple(self.egress.api_server_ports),
            ray_egress=tuple(self.egress.ray_pods),
            gateway_image=self.gateway_image,
            gateway_pull_secrets=self.gateway_pull_secrets,
            gateway_tokens=self.gateway_tokens,
            gateway_replicas=self.gateway_replicas,
            assigned_users=self.assigned_users,
            gateway_pods=self.gateway_pods,
            engine_metrics_from=self.engine_metrics_from,
            node_wait=self.node_wait,
            operator_namespace=self.operator_namespace,
        )


def _namespaces(text: str) -> tuple[str, ...]:
    """Return the namespaces of DAYBREAK_NAMESPACE, each once, in their order."""
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in found:
        if not _NAMESPACE.fullmatch(name):
            raise InvalidSettings(
                f"DAYBREAK_NAMESPACE is {text!r}: use names of namespaces, separated by commas"
            )
    return found


def _node_wait(text: str) -> timedelta:
    """Parse DAYBREAK_NODE_WAIT."""
    try:
        found = parse_duration(text)
    except ValueError:
        found = None
    if found is None or not timedelta(0) <= found <= _LONGEST_NODE_WAIT:
        raise InvalidSettings(f"DAYBREAK_NODE_WAIT is {text!r}: use a duration such as 3m, at most 1h")
    return found


def _egress(text: str) -> Egress:
    """Parse DAYBREAK_EGRESS. Raise InvalidSettings with each invalid field."""
    try:
        return Egress.model_validate_json(text)
    except ValidationError as error:
        raise InvalidSettings(f"DAYBREAK_EGRESS: {readable(error, 'networkPolicy.egress')}") from error


def _gateway_pods(text: str) -> GatewayPods:
    """Parse DAYBREAK_GATEWAY_PODS. Raise InvalidSettings with each invalid field."""
    try:
        pods = GatewayPods.model_validate_json(text)
    except ValidationError as error:
        raise InvalidSettings(f"DAYBREAK_GATEWAY_PODS: {readable(error, 'gateway')}") from error
    if wrong := gateway_pods.problems(pods):
        raise InvalidSettings(f"DAYBREAK_GATEWAY_PODS: {'; '.join(wrong)}")
    return pods


def _peers(name: str, text: str) -> tuple[Mapping[str, Any], ...]:
    """Parse a list of NetworkPolicy peers. Raise InvalidSettings with the name of the variable."""
    try:
        return tuple(_PEERS.validate_json(text))
    except ValidationError as error:
        raise InvalidSettings(f"DAYBREAK_{name}: {readable(error, 'a list of peers')}") from error


def _engines(text: str) -> Engines:
    """Parse DAYBREAK_ENGINES. Raise InvalidSettings if it is no JSON object."""
    try:
        return with_own(text)
    except ValidationError as error:
        raise InvalidSettings(f"DAYBREAK_ENGINES: {readable(error, 'engines')}") from error
