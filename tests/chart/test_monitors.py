"""ServiceMonitors and PodMonitors of the chart."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from daybreak.api.common import names
from tests.chart.tools import Helm, of_kind, one


@pytest.mark.parametrize(
    ("watch", "where"),
    [
        ("watch.namespaced=false", {"any": True}),
        ("watch.namespaces={one,two}", {"matchNames": ["one", "two"]}),
    ],
)
def test_engine_monitor_uses_address_and_path_of_pod_annotations(
    helm: Helm, watch: str, where: dict[str, Any]
) -> None:
    values = ("metrics.engines.enabled=true", watch)
    monitor = one(helm.template(*(word for value in values for word in ("--set", value))), "PodMonitor")
    assert monitor["spec"]["namespaceSelector"] == where
    selected = monitor["spec"]["selector"]["matchLabels"]
    assert selected.items() <= names.labels("server.chat", names.SERVER_COMPONENT).items()
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] == "http", "a name that each of them has once"
    found = {
        "__meta_kubernetes_pod_annotation_prometheus_io_scrape": "true",
        "__meta_kubernetes_pod_annotation_prometheus_io_path": "/metrics",
        "__meta_kubernetes_pod_annotation_prometheus_io_port": "8002",
        **of_pod(names.owner_labels("server.chat")),
    }
    for address, target in (("10.0.0.7", "10.0.0.7:8002"), ("fd00::7", "[fd00::7]:8002")):
        labels = relabelled(endpoint["relabelings"], found | {"__meta_kubernetes_pod_ip": address})
        assert labels is not None
        assert (labels["__address__"], labels["__metrics_path__"]) == (target, "/metrics")
        assert labels["model_server"] == "chat"
    assert relabelled(endpoint["relabelings"], {"__meta_kubernetes_pod_ip": "10.0.0.7"}) is None


@pytest.mark.parametrize(
    ("options", "monitors"),
    [
        ((), {"daybreak", "daybreak-gateways", "daybreak-ray"}),
        (("metrics.serviceMonitor.enabled=true",), {"daybreak-gateways", "daybreak-ray"}),
        (("gateway.enabled=false",), {"daybreak", "daybreak-ray"}),
    ],
)
def test_pod_monitor_value_creates_expected_monitors(
    helm: Helm, options: tuple[str, ...], monitors: set[str]
) -> None:
    given = ("metrics.podMonitor.enabled=true", *options)
    manifests = helm.template(*(word for value in given for word in ("--set", value)))
    assert {each["metadata"]["name"] for each in of_kind(manifests, "PodMonitor")} == monitors


@pytest.mark.parametrize(
    ("watch", "where"),
    [
        ("watch.namespaced=false", {"any": True}),
        ("watch.namespaces={one,two}", {"matchNames": ["one", "two"]}),
    ],
)
def test_monitors_select_gateways_and_ray_pods_of_watched_namespaces(
    helm: Helm, watch: str, where: dict[str, Any]
) -> None:
    # Here, so that the other tests do without the operator's libraries.
    from daybreak.api.common import names
    from daybreak.ray import ports

    manifests = helm.template("--set", "metrics.podMonitor.enabled=true", "--set", watch)
    found = {each["metadata"]["name"]: each["spec"] for each in of_kind(manifests, "PodMonitor")}
    gateways, ray = found["daybreak-gateways"], found["daybreak-ray"]
    assert gateways["namespaceSelector"] == ray["namespaceSelector"] == where
    assert gateways["selector"]["matchLabels"].items() <= names.gateway_labels().items()
    [expression] = ray["selector"]["matchExpressions"]
    for component in expression["values"]:
        assert ray["selector"]["matchLabels"].items() <= names.labels("chat", component).items()
    [endpoint] = ray["podMetricsEndpoints"]
    assert ports.WORKER_PORTS[endpoint["port"]] == ports.HEAD_PORTS[endpoint["port"]] == ports.METRICS
    labels = relabelled(endpoint["relabelings"], of_pod(names.owner_labels("chat")))
    assert labels is not None
    assert (labels["owner_kind"], labels["llm_service"]) == ("LLMService", "chat")


def of_pod(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that Prometheus gives a target for the labels of its pod."""
    return {
        f"__meta_kubernetes_pod_label_{re.sub('[^a-zA-Z0-9_]', '_', name)}": value
        for name, value in labels.items()
    }


def relabelled(rules: list[dict[str, Any]], labels: dict[str, str]) -> dict[str, str] | None:
    """Return a target's labels after Prometheus has relabeled them, or None if it drops the target."""
    for rule in rules:
        value = ";".join(labels.get(name, "") for name in rule["sourceLabels"])
        matched = re.fullmatch(rule.get("regex", "(.*)"), value)
        if rule.get("action") == "keep":
            if matched is None:
                return None
        elif matched is not None:
            template = re.sub(r"\$(\d)", r"\\\1", rule.get("replacement", "$1"))
            labels = labels | {rule["targetLabel"]: matched.expand(template)}
    return labels
