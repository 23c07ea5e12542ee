"""What an installation may set of its gateways' pods: the chart's values of `gateway`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from daybreak.api.pods import pod_owners, pod_rules, pod_schema
from daybreak.api.pods.pod_template import PodTemplate
from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.kubernetes_types import Toleration
from daybreak.api.schema.scalar_types import Labels, Quantity

_PLACING = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "topologySpreadConstraints")
"""Fields that have the same names in a pod."""


class GatewayResources(ApiModel):
    """What a container of a gateway asks of its node."""

    requests: dict[str, Quantity] = Field(default_factory=dict)
    """Requests by resource."""
    limits: dict[str, Quantity] = Field(default_factory=dict)
    """Limits by resource."""


DEFAULT_RESOURCES = GatewayResources(
    requests={"cpu": "50m", "memory": "128Mi"},
    limits={"memory": "1Gi"},
)
DEFAULT_AGENT_RESOURCES = GatewayResources(
    requests={"cpu": "20m", "memory": "128Mi"},
    limits={"memory": "512Mi"},
)
"""Measured: docs/decisions/0058."""


class GatewayPods(ApiModel):
    """Settings of the gateways' pods. What is left out is as Daybreak makes it."""

    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When the kubelet pulls the image."""
    resources: GatewayResources = DEFAULT_RESOURCES
    """Requests and limits of HAProxy's container."""
    agent_resources: GatewayResources = DEFAULT_AGENT_RESOURCES
    """Requests and limits of the agent's container."""
    node_selector: Labels = Field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: list[Toleration] = Field(default_factory=list)
    """Taints that the pods tolerate."""
    affinity: dict[str, Any] = Field(default_factory=dict)
    """Affinity of the pods."""
    priority_class_name: Annotated[str, Field(max_length=253)] = ""
    """PriorityClass of the pods."""
    topology_spread_constraints: list[dict[str, Any]] = Field(default_factory=list)
    """How the pods spread; empty: over nodes, where that can be."""
    metrics_allow_from: list[dict[str, Any]] = Field(default_factory=list)
    """Who may read state and metrics beside the operator, as NetworkPolicy peers."""
    pod_template: PodTemplate = Field(default_factory=PodTemplate)
    """What to add to the pods."""

    def pod(self) -> dict[str, Any]:
        """Those fields that a pod has by the same names, if they say anything."""
        plain = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {name: plain[name] for name in _PLACING if plain[name]}


def problems(pods: GatewayPods) -> tuple[str, ...]:
    """Everything that keeps the pods from being made, each as one sentence with the value's path."""
    fields = pod_schema.fields(pod_schema.pod())
    found: list[str] = []
    for name, value in pods.pod().items():
        found += pod_schema.problems(value, f"gateway.{name}", fields[name])
    owner = pod_owners.gateway_owner(pods.resources.requests.get("cpu"))
    found += pod_rules.problems(pods.pod_template, "gateway.podTemplate", owner)
    return tuple(found)
