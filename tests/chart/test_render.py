"""Manifests that the chart renders, and values that it rejects. The real Helm renders."""

import json
import re
import tomllib
from dataclasses import asdict

import pytest
import yaml

from daybreak import versions
from daybreak.api.common import names
from daybreak.assembly import KINDS
from daybreak.ray import ports
from tests.chart.rendered import OPERATOR_LABELS, environment, operator_pod
from tests.chart.tools import CHART, EVERYTHING, ROOT, Helm, Manifest, load, of_kind, one


def test_helm_lint_reports_no_warning(helm: Helm) -> None:
    report = helm("lint", "--strict", CHART, "--values", EVERYTHING)
    assert not re.search(r"\[(WARNING|ERROR)\]", report), report


def test_chart_versions_equal_versions_of_code() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "operator" / "pyproject.toml").read_text())["project"]
    assert chart["version"] == chart["appVersion"] == versions.DAYBREAK == project["version"]
    assert chart["annotations"]["daybreak.dev/kuberay-version"] == versions.KUBERAY


def test_default_values_render_expected_objects(rendered: list[Manifest]) -> None:
    assert sorted(f"{m['kind']}/{m['metadata']['name']}" for m in rendered) == [
        "ClusterRole/daybreak",
        "ClusterRole/daybreak-edit",
        "ClusterRole/daybreak-view",
        "ClusterRoleBinding/daybreak",
        "CustomResourceDefinition/llmbatches.daybreak.dev",
        "CustomResourceDefinition/llmbenchmarks.daybreak.dev",
        "CustomResourceDefinition/llmroutes.daybreak.dev",
        "CustomResourceDefinition/llmservices.daybreak.dev",
        "CustomResourceDefinition/modelservers.daybreak.dev",
        "CustomResourceDefinition/serveapplications.daybreak.dev",
        "Deployment/daybreak",
        "Lease/daybreak-operator",
        "Role/daybreak-lease",
        "RoleBinding/daybreak-lease",
        "Service/daybreak-metrics",
        "ServiceAccount/daybreak",
        "ValidatingAdmissionPolicy/daybreak-daybreak-system",
        "ValidatingAdmissionPolicy/daybreak-daybreak-system-delete",
        "ValidatingAdmissionPolicyBinding/daybreak-daybreak-system",
        "ValidatingAdmissionPolicyBinding/daybreak-daybreak-system-delete",
    ]


def test_default_values_set_expected_operator_environment(rendered: list[Manifest]) -> None:
    assert environment(rendered) == {
        "DAYBREAK_NAMESPACE": "",
        "DAYBREAK_WATCH_NODES": "true",
        "DAYBREAK_NODE_WAIT": "0s",
        "DAYBREAK_OPERATOR_NAMESPACE": "metadata.namespace",
        "POD_NAME": "metadata.name",
        "DAYBREAK_KUBERAY_NAMESPACE": "kuberay-system",
        "DAYBREAK_RAY_IMAGE": f"daybreak-ray:{versions.DAYBREAK}",
        "DAYBREAK_RAY_CPU_IMAGE": f"daybreak-ray-cpu:{versions.DAYBREAK}",
        "DAYBREAK_RAY_HEAD_IMAGE": "",
        "DAYBREAK_EGRESS": '{"apiServerPorts":[443,6443,8443,16443],"gateways":true,"rayPods":[]}',
        "DAYBREAK_NETWORK_POLICY": "true",
        "DAYBREAK_GATEWAY_IMAGE": f"daybreak-gateway:{versions.DAYBREAK}",
        "DAYBREAK_GATEWAY_PULL_SECRETS": "",
        "DAYBREAK_GATEWAY_REPLICAS": "2",
        "DAYBREAK_ASSIGNED_USERS": "false",
        "DAYBREAK_GATEWAY_TOKENS": "true",
        "DAYBREAK_GATEWAY_PODS": json.dumps(
            {
                "agentResources": {
                    "limits": {"memory": "512Mi"},
                    "requests": {"cpu": "20m", "memory": "128Mi"},
                },
                "pullPolicy": "IfNotPresent",
                "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "50m", "memory": "128Mi"}},
            },
            separators=(",", ":"),
        ),
        "DAYBREAK_ENGINES": "{}",
        "DAYBREAK_ENGINE_METRICS_FROM": "[]",
        "DAYBREAK_LOG_LEVEL": "info",
        "DAYBREAK_HTTP_PORT": "8080",
    }


def test_named_cpu_image_is_used_for_heads(helm: Helm) -> None:
    rendered = helm.template("--set", "rayImage=r.example/ray:1,rayCpuImage=r.example/cpu:1")
    assert environment(rendered)["DAYBREAK_RAY_HEAD_IMAGE"] == "r.example/cpu:1"


def test_given_values_set_expected_operator_environment(helm: Helm) -> None:
    assert environment(helm.template("--values", EVERYTHING)) == {
        "DAYBREAK_NAMESPACE": "research,serving",
        "DAYBREAK_WATCH_NODES": "false",
        "DAYBREAK_NODE_WAIT": "3m",
        "DAYBREAK_OPERATOR_NAMESPACE": "metadata.namespace",
        "POD_NAME": "metadata.name",
        "DAYBREAK_KUBERAY_NAMESPACE": "ray-operators",
        "DAYBREAK_RAY_IMAGE": "registry.example.com/daybreak-ray:9.9.9",
        "DAYBREAK_RAY_CPU_IMAGE": "registry.example.com/daybreak-ray-cpu:9.9.9",
        "DAYBREAK_RAY_HEAD_IMAGE": "registry.example.com/daybreak-head:9.9.9",
        "DAYBREAK_EGRESS": (
            '{"apiServerPorts":[7443],"gateways":false,"rayPods":[{"ports":[{"port":443,"protocol":"TCP"}],'
            '"to":[{"ipBlock":{"cidr":"192.0.2.0/24"}}]}]}'
        ),
        "DAYBREAK_NETWORK_POLICY": "false",
        "DAYBREAK_GATEWAY_IMAGE": "",
        "DAYBREAK_GATEWAY_PULL_SECRETS": "registry,mirror",
        "DAYBREAK_GATEWAY_REPLICAS": "3",
        "DAYBREAK_ASSIGNED_USERS": "true",
        "DAYBREAK_GATEWAY_TOKENS": "false",
        "DAYBREAK_GATEWAY_PODS": json.dumps(
            {
                name: value
                for name, value in sorted(yaml.safe_load(EVERYTHING.read_text())["gateway"].items())
                if name not in ("enabled", "image", "imagePullSecrets", "replicas")
            },
            separators=(",", ":"),
            sort_keys=True,
        ),
        "DAYBREAK_ENGINES": json.dumps(
            yaml.safe_load(EVERYTHING.read_text())["engines"], separators=(",", ":"), sort_keys=True
        ),
        "DAYBREAK_ENGINE_METRICS_FROM": (
            '[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}}]'
        ),
        "DAYBREAK_LOG_LEVEL": "debug",
        "DAYBREAK_HTTP_PORT": "8080",
        "HTTPS_PROXY": "http://proxy.example.com:3128",
        "NODE_NAME": "spec.nodeName",
    }


def test_each_environment_variable_sets_one_operator_setting(rendered: list[Manifest]) -> None:
    """The names and forms are those that the operator reads: its own reader takes them.

    Each variable sets one thing, and there is a variable for everything that can be set.
    """
    # Here, so that the other tests do without the operator's libraries.
    from daybreak.api.pods.gateway_pods import GatewayPods
    from daybreak.settings import Settings

    fields = {"metadata.namespace": "daybreak-system", "metadata.name": "daybreak-7d4b9-x2x"}
    given = {name: fields.get(value, value) for name, value in environment(rendered).items()}
    settings = Settings.from_environment(given)
    assert settings.namespaces == ()
    assert settings.operator_namespace == "daybreak-system"
    assert settings.identity == "daybreak-7d4b9-x2x"
    assert settings.ray_image == f"daybreak-ray:{versions.DAYBREAK}"
    assert settings.http_port == 8080
    assert settings.gateway_pods == GatewayPods()
    others = {
        "DAYBREAK_WATCH_NODES": "false",
        "DAYBREAK_NODE_WAIT": "3m",
        "DAYBREAK_GATEWAY_PODS": '{"priorityClassName": "high"}',
        "DAYBREAK_NETWORK_POLICY": "false",
        "DAYBREAK_EGRESS": '{"gateways": false}',
        "DAYBREAK_ASSIGNED_USERS": "true",
        "DAYBREAK_GATEWAY_TOKENS": "false",
        "DAYBREAK_GATEWAY_REPLICAS": "3",
        "DAYBREAK_ENGINES": '{"own": {"flagStyle": "none", "port": 80, "readinessPath": "/"}}',
        "DAYBREAK_ENGINE_METRICS_FROM": '[{"podSelector": {}}]',
        "DAYBREAK_LOG_LEVEL": "debug",
        "DAYBREAK_HTTP_PORT": "9000",
    }
    usual, changed = asdict(settings), []
    for name in given:
        different = asdict(Settings.from_environment({**given, name: others.get(name, "something-else")}))
        changed.append([field for field in usual if usual[field] != different[field]])
        assert len(changed[-1]) == 1, f"{name} sets {changed[-1] or 'nothing'}"
    assert sorted(changed) == sorted([field] for field in usual)


def test_image_is_set_by_tag_digest_or_default(helm: Helm) -> None:
    def image(*options: str) -> str:
        text: str = operator_pod(helm.template(*options))["containers"][0]["image"]
        return text

    digest = "sha256:" + "0" * 64
    assert image() == f"daybreak-operator:{versions.DAYBREAK}"
    assert image("--set", "image.repository=r.example/x,image.tag=v7") == "r.example/x:v7"
    assert image("--set", f"image.tag=v7,image.digest={digest}") == f"daybreak-operator@{digest}"


def test_crd_values_control_rendering_and_keep_annotation(helm: Helm, rendered: list[Manifest]) -> None:
    crds = of_kind(rendered, "CustomResourceDefinition")
    assert len(crds) == len(KINDS)
    for kept in crds:
        assert kept["metadata"]["annotations"] == {
            "helm.sh/resource-policy": "keep",
            "argocd.argoproj.io/sync-options": "Prune=false",
        }
    for loose in of_kind(helm.template("--set", "crds.keep=false"), "CustomResourceDefinition"):
        assert "annotations" not in loose["metadata"]
    assert not of_kind(helm.template("--set", "crds.enabled=false"), "CustomResourceDefinition")


def test_rendered_crds_equal_generated_crds(rendered: list[Manifest]) -> None:
    """Through the template come labels and the annotation, and nothing is lost (numbers included)."""
    files = sorted((CHART / "files" / "crds").glob("*.yaml"))
    made = {
        found["metadata"]["name"]: found["spec"] for found in of_kind(rendered, "CustomResourceDefinition")
    }
    written = [load(file.read_text())[0] for file in files]
    assert made == {found["metadata"]["name"]: found["spec"] for found in written}


def test_deployment_runs_one_operator_with_recreate_strategy(rendered: list[Manifest]) -> None:
    spec = one(rendered, "Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_operator_container_keeps_entrypoint_of_image(rendered: list[Manifest]) -> None:
    """The entrypoint's first process receives signals before Python does."""
    (container,) = operator_pod(rendered)["containers"]
    assert "command" not in container


def test_probes_request_http_server_of_operator(rendered: list[Manifest]) -> None:
    (container,) = operator_pod(rendered)["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_network_policy_allows_all_connections_of_operator(helm: Helm) -> None:
    options = ("operatorNetworkPolicy.enabled=true", "networkPolicy.egress.apiServerPorts={7443}")
    manifests = helm.template(*(each for option in options for each in ("--set", option)))
    rules = one(manifests, "NetworkPolicy")["spec"]["egress"]
    opened = [{port["port"] for port in rule.get("ports", [])} for rule in rules]
    assert {7443} in opened
    assert {ports.SERVE, ports.DIRECT, ports.FILL, ports.BATCH, names.GATEWAY_HTTP_PORT} in opened
    # Engines of ModelServers have other ports, also ones that only an installation knows.
    server = {names.MANAGED_BY_LABEL: names.MANAGED_BY, names.COMPONENT_LABEL: names.SERVER_COMPONENT}
    peer = {"namespaceSelector": {}, "podSelector": {"matchLabels": server}}
    assert {"to": [peer]} in rules
    (probed,) = (
        rule for rule in rules if names.GATEWAY_HTTP_PORT in {each["port"] for each in rule.get("ports", [])}
    )
    (expression,) = probed["to"][0]["podSelector"]["matchExpressions"]
    assert expression["operator"] == "Exists"
    for labels in (
        names.gateway_labels(),
        names.labels("chat", "worker"),
        names.labels("server.chat", "server"),
    ):
        assert expression["key"] in labels


@pytest.mark.parametrize("options", [(), ("--values", EVERYTHING), ("--set", "nameOverride=night")])
def test_operator_labels_match_all_selectors(helm: Helm, options: tuple[str, ...]) -> None:
    """By these labels policies and selectors of other people find the operator, whatever its name is."""
    manifests = helm.template(*options)
    pod_labels = one(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert OPERATOR_LABELS.items() <= pod_labels.items()
    assert one(manifests, "Service")["spec"]["selector"].items() <= pod_labels.items()
    assert one(manifests, "Deployment")["spec"]["selector"]["matchLabels"].items() <= pod_labels.items()
    for kind in ("ServiceMonitor", "PodMonitor", "NetworkPolicy"):
        for found in of_kind(manifests, kind):
            if found["metadata"]["name"].endswith(("-engines", "-gateways", "-ray")):
                continue  # other pods than the operator's
            selector = found["spec"].get("podSelector") or found["spec"]["selector"]
            target = (
                one(manifests, "Service")["metadata"]["labels"] if kind == "ServiceMonitor" else pod_labels
            )
            assert selector["matchLabels"].items() <= target.items(), kind


@pytest.mark.parametrize(
    ("options", "namespaces", "nodes"),
    [
        ("watch.namespaced=true", "metadata.namespace", "false"),
        ("watch.namespaces=one", "one", "true"),
        ("watch.namespaces={one,two}", "one,two", "true"),
        ("watch.namespaces={one,two},watch.nodes=false", "one,two", "false"),
        ("watch.namespaces={one,two},watch.namespaced=true", "one,two", "false"),
        ("watch.nodes=false", "", "false"),
    ],
)
def test_watch_values_set_namespaces_and_node_watch(
    helm: Helm, options: str, namespaces: str, nodes: str
) -> None:
    settings = environment(helm.template("--set", options))
    assert (settings["DAYBREAK_NAMESPACE"], settings["DAYBREAK_WATCH_NODES"]) == (namespaces, nodes)


def test_namespaced_mode_renders_no_cluster_scoped_objects(helm: Helm) -> None:
    manifests = helm.template("--set", "watch.namespaced=true,crds.enabled=false", namespace="models")
    for manifest in manifests:
        assert manifest["metadata"].get("namespace") == "models", f"{manifest['kind']} has another scope"
    assert not {m["kind"] for m in manifests} & {"ClusterRole", "ClusterRoleBinding"}


def test_names_stay_within_kubernetes_limits(helm: Helm) -> None:
    release = "r" * 53  # Helm's own limit
    for manifest in load(helm("template", release, CHART)):
        name = manifest["metadata"]["name"]
        if manifest["kind"] != "CustomResourceDefinition":
            assert len(name) <= 63, name
            assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
