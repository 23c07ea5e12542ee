"""Settings of a namespace for its own gateway's pods, in a ConfigMap with a fixed name."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError

from daybreak.api.common.unstructured import at
from daybreak.api.pods import gateway_pods
from daybreak.api.pods.gateway_pods import GatewayResources
from daybreak.api.schema.base import ApiModel, readable
from daybreak.api.schema.kubernetes_types import Toleration
from daybreak.api.schema.scalar_types import Labels
from daybreak.platform import Platform

FILE = "gateway.yaml"
"""The only key of the ConfigMap."""
LONGEST = 16_384
"""Maximum number of characters in the key."""


class InvalidGatewaySettings(ValueError):
    """Invalid gateway settings of a namespace, with one sentence for each error."""


class GatewaySettings(ApiModel):
    """Settings of the gateway of one namespace, named like the chart's values of `gateway`.

    Each present setting overrides that of the installation.
    """

    replicas: Annotated[int, Field(ge=1, le=99)] | None = None
    """Number of gateway pods."""
    resources: GatewayResources | None = None
    """Requests and limits of HAProxy's container."""
    agent_resources: GatewayResources | None = None
    """Requests and limits of the agent's container."""
    node_selector: Labels | None = None
    """Labels that a node must have."""
    tolerations: list[Toleration] | None = None
    """Taints that the pods tolerate."""
    affinity: dict[str, Any] | None = None
    """Affinity of the pods."""
    priority_class_name: Annotated[str, Field(max_length=253)] | None = None
    """PriorityClass of the pods."""
    topology_spread_constraints: list[dict[str, Any]] | None = None
    """Spread constraints of the pods."""


def of_namespace(platform: Platform, manifest: Mapping[str, Any] | None) -> Platform:
    """Return the installation's settings, overridden by those of a namespace's ConfigMap.

    Args:
        platform: Settings of the installation.
        manifest: The ConfigMap, or None if the namespace has none.

    Raises:
        InvalidGatewaySettings: The ConfigMap is invalid.
    """
    if manifest is None:
        return platform
    message = _read(manifest)
    given = {
        name: value for name in GatewaySettings.model_fields if (value := getattr(message, name)) is not None
    }
    replicas = given.pop("replicas", platform.gateway_replicas)
    pods = platform.gateway_pods.model_copy(update=given)
    if wrong := gateway_pods.problems(pods):
        raise InvalidGatewaySettings("; ".join(wrong))
    return replace(platform, gateway_replicas=replicas, gateway_pods=pods)


def _read(manifest: Mapping[str, Any]) -> GatewaySettings:
    data = at(manifest, "data")
    if unknown := sorted(set(data) - {FILE}):
        raise InvalidGatewaySettings(f"{', '.join(unknown)}: only the key {FILE} is read")
    text = str(data.get(FILE) or "")
    if len(text) > LONGEST:
        raise InvalidGatewaySettings(f"{FILE} has more than {LONGEST} characters")
    try:
        # A few lines with aliases can expand beyond the available memory.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)):
            raise InvalidGatewaySettings(f"{FILE} has an alias (*name): write out its value")
        message = yaml.safe_load(text)
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where is not None else ""
        raise InvalidGatewaySettings(f"{FILE} is not valid YAML{line}") from error
    except RecursionError as error:
        raise InvalidGatewaySettings(f"{FILE} is nested too deeply") from error
    try:
        return GatewaySettings.model_validate({} if message is None else message)
    except ValidationError as error:
        raise InvalidGatewaySettings(readable(error, "gateway")) from error
