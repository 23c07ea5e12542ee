"""Properties of the cluster and of the installation that builders of objects need."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from daybreak.api.pods.gateway_pods import GatewayPods
from daybreak.api.ray.workload import RayWorkload

KUBERAY_NAMESPACE = "kuberay-system"
"""Namespace of KubeRay's operator in its own documentation and in Daybreak's."""
API_SERVER_PORTS = (443, 6443, 8443, 16443)
"""Ports of the API server in common distributions, as pods reach it."""


@dataclass(frozen=True)
class Platform:
    """Settings of the installation that apply to all services."""

    ray_image: str
    """Image of Ray pods with models on accelerators. A service may override it."""
    ray_cpu_image: str
    """Image of Ray pods with models on the CPU. A service may override it."""
    ray_head_image: str = ""
    """Image of the heads of services on accelerators, without the parts that only GPUs need. A service may
    override it. Defaults to the image of the workers."""
    kuberay_namespace: str = KUBERAY_NAMESPACE
    """Namespace of KubeRay's operator. Only its pods there may reach Ray heads; the labels alone do not
    suffice."""
    network_policy: bool = True
    """True to create NetworkPolicies for services."""
    gateway_egress: bool = True
    """True to restrict the egress of gateways in their NetworkPolicies."""
    api_server_ports: tuple[int, ...] = API_SERVER_PORTS
    """TCP ports of the API server, as pods reach it behind its Service."""
    ray_egress: tuple[Mapping[str, Any], ...] = ()
    """Permitted egress of Ray pods in addition to each other, DNS and the API server, as rules of a
    NetworkPolicy. If empty, all egress is permitted."""
    gateway_image: str = ""
    """Image of the gateways. If empty, there are no gateways: services are reached directly and never
    sleep."""
    gateway_pull_secrets: tuple[str, ...] = ()
    """Pull secrets for the gateway image, in the namespaces of the services."""
    gateway_tokens: bool = False
    """True if gateways prove their identity to the operator by tokens, which the API server verifies
    (TokenReview)."""
    gateway_replicas: int = 2
    """Number of gateway pods in each namespace."""
    assigned_users: bool = False
    """True if the platform chooses the users of containers. Otherwise pods specify the users of Daybreak's
    images."""
    gateway_pods: GatewayPods = field(default_factory=GatewayPods)
    """Further settings of gateway pods."""
    engine_metrics_from: tuple[Mapping[str, Any], ...] = ()
    """Peers of a NetworkPolicy that may reach the metrics port of ModelServers' engines."""
    node_wait: timedelta = timedelta(0)
    """Time that a model without free accelerators waits for new nodes before other models yield."""
    operator_namespace: str = "default"
    """Namespace of the operator, from which it probes models and reads reports of gateways."""

    def image_of(self, workload: RayWorkload) -> str:
        """Return the image of a workload's Ray pods: a custom one, or the default for its accelerators."""
        default = self.ray_image if workload.on_accelerators else self.ray_cpu_image
        return default if workload.runtime.image is None else workload.runtime.image

    def head_image_of(self, workload: RayWorkload) -> str:
        """Return the image of a workload's pods without computation: the head, and Jobs that fill a cache."""
        apart = workload.on_accelerators and workload.runtime.image is None and self.ray_head_image
        return apart or self.image_of(workload)
