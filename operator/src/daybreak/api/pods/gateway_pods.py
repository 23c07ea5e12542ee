"""Settings of an installation for its gateway pods: the chart's values of `gateway`."""

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
    """Resource requests and limits of a gateway container."""

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
    """Settings of the gateway pods. Daybreak's defaults apply to omitted fields."""

    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """Policy by which the kubelet pulls the image."""
    resources: GatewayResources = DEFAULT_RESOURCES
    """Requests and limits of the HAProxy container."""
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
    """Topology spread constraints of the pods. If empty, the pods spread over nodes if possible."""
    metrics_allow_from: list[dict[str, Any]] = Field(default_factory=list)
    """NetworkPolicy peers that may read state and metrics, in addition to the operator."""
    pod_template: PodTemplate = Field(default_factory=PodTemplate)
    """Additions to the pods."""

    def pod(self) -> dict[str, Any]:
        """Return the non-empty fields that have the same names in a pod."""
        plain = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return {name: plain[name] for name in _PLACING if plain[name]}


def problems(pods: GatewayPods) -> tuple[str, ...]:
    """Return each problem that prevents creation of the pods, as one sentence with the value's path."""
    fields = pod_schema.fields(pod_schema.pod())
    found: list[str] = []
    for name, value in pods.pod().items():
        found += pod_schema.problems(value, f"gateway.{name}", fields[name])
    owner = pod_owners.gateway_owner(pods.resources.requests.get("cpu"))
    found += pod_rules.problems(pods.pod_template, "gateway.podTemplate", owner)
    return tuple(found)
