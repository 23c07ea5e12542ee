"""The operator's pod and environment, as the chart renders them."""

from typing import Any

from tests.chart.tools import Manifest, one

OPERATOR_LABELS = {"app.kubernetes.io/part-of": "daybreak", "app.kubernetes.io/component": "operator"}


def operator_pod(manifests: list[Manifest]) -> dict[str, Any]:
    """Return the spec of the operator's pod."""
    spec: dict[str, Any] = one(manifests, "Deployment")["spec"]["template"]["spec"]
    return spec


def environment(manifests: list[Manifest]) -> dict[str, Any]:
    """Return the operator's environment variables: text, or the field that they take."""
    variables = operator_pod(manifests)["containers"][0]["env"]
    assert len({variable["name"] for variable in variables}) == len(variables), "a name twice"
    return {
        variable["name"]: variable["value"]
        if "value" in variable
        else variable["valueFrom"]["fieldRef"]["fieldPath"]
        for variable in variables
    }
