"""What the builders need to know of the cluster and of the operator's own installation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from daybreak.api.pods.gateway_pods import GatewayPods
from daybreak.api.ray.workload import RayWorkload

KUBERAY_NAMESPACE = "kuberay-system"
"""Where its own documentation, and Daybreak's, installs KubeRay's operator."""
API_SERVER_PORTS = (443, 6443, 8443, 16443)
"""Where the usual distributions have the API server, as pods reach it."""


@dataclass(frozen=True)
class Platform:
    """Settings of the installation, the same for every service."""

    ray_image: str
    """Image of Ray pods whose models compute on accelerators, where the service names none."""
    ray_cpu_image: str
    """The same for models on the CPU."""
    ray_head_image: str = ""
    """Image of the heads of services on accelerators, where the service names none: a head needs none of what
    only GPUs need. Empty: that of the workers."""
    kuberay_namespace: str = KUBERAY_NAMESPACE
    """Namespace of KubeRay's operator. Its pods there may reach Ray heads, and no others with its labels."""
    network_policy: bool = True
    """Whether services get a NetworkPolicy."""
    gateway_egress: bool = True
    """Whether that of gateways also says what they may reach."""
    api_server_ports: tuple[int, ...] = API_SERVER_PORTS
    """TCP ports of the API server, as pods reach it behind its Service."""
    ray_egress: tuple[Mapping[str, Any], ...] = ()
    """What Ray pods may reach beside each other, DNS and the API server, as a policy's rules; none: all."""
    gateway_image: str = ""
    """Image of the gateways; empty: there are none, services are reached directly and never sleep."""
    gateway_pull_secrets: tuple[str, ...] = ()
    """Secrets for pulling it, in the namespaces of the services."""
    gateway_tokens: bool = False
    """Whether gateways prove to the operator who they are, which asks the API server (TokenReview)."""
    gateway_replicas: int = 2
    """Gateway pods in each namespace."""
    assigned_users: bool = False
    """Whether the platform chooses the users of containers; else pods name those of Daybreak's images."""
    gateway_pods: GatewayPods = field(default_factory=GatewayPods)
    """What is set of them."""
    engine_metrics_from: tuple[Mapping[str, Any], ...] = ()
    """Who may reach the port at which engines of ModelServers have their metrics, as a policy's peers."""
    node_wait: timedelta = timedelta(0)
    """How long who finds no accelerators waits for nodes that may be added, until others give way."""
    operator_namespace: str = "default"
    """Where the operator runs: it asks models, and listens to gateways."""

    def image_of(self, workload: RayWorkload) -> str:
        """Image of a workload's Ray pods: its own, or the default for what its models compute on."""
        default = self.ray_image if workload.on_accelerators else self.ray_cpu_image
        return default if workload.runtime.image is None else workload.runtime.image

    def head_image_of(self, workload: RayWorkload) -> str:
        """Image of the pods of a workload that compute nothing: the head, and what fills a cache."""
        apart = workload.on_accelerators and workload.runtime.image is None and self.ray_head_image
        return apart or self.image_of(workload)
