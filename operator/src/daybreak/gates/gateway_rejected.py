"""Pods of a gateway that the API server rejects, as the Deployment reports them."""

from daybreak.api.common import names
from daybreak.api.common.unstructured import Manifest, at, condition, text
from daybreak.problems.pod_refusals import PodFields, fix, with_fix
from daybreak.problems.redact import excerpt

_SETTINGS = f"gateway.yaml in ConfigMap {names.GATEWAY}"
_TEMPLATE = "gateway.podTemplate of the chart's values"
FIELDS = {
    name: PodFields(_TEMPLATE, name, resources=resources, owner=_SETTINGS)
    for name, resources in ((names.GATEWAY_COMPONENT, "resources"), (names.GATEWAY_AGENT, "agentResources"))
}
"""Fields of a gateway's pod, by container."""


def rejection(deployment: Manifest | None) -> str:
    """Return why the API server rejects pods of a gateway, with the field to set. Empty if it does not."""
    failed = condition(at(deployment, "status"), "ReplicaFailure")
    if failed.get("status") != "True":
        return ""
    message = text(failed.get("message"))
    return with_fix(excerpt(message), fix(message, FIELDS))


def unheard(rejected: str) -> str:
    """Return the message for a namespace in which no gateway reports."""
    if rejected:
        return f"no gateway of the namespace reports to the operator, since its pods are rejected: {rejected}"
    return f"no gateway of the namespace reports to the operator: check Deployment {names.GATEWAY}"
