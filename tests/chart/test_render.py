"""What the chart renders, and what it refuses. The real Helm renders."""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import jsonschema
import pytest
import yaml

from daybreak import versions
from daybreak.api.common import names
from daybreak.assembly import KINDS
from daybreak.ray import ports
from scripts.docs import values_table
from tests.chart.tools import CHART, EVERYTHING, ROOT, Helm, Manifest, ToolFailed, load, of_kind, one

OPERATOR_LABELS = {"app.kubernetes.io/part-of": "daybreak", "app.kubernetes.io/component": "operator"}


def leaves(values: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every value that is no mapping with keys, with its dotted path."""
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from leaves(value, f"{path}.{key}" if path else key)
    else:
        yield path, values


def defaults() -> dict[str, Any]:
    """values.yaml."""
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return values


def operator_pod(manifests: list[Manifest]) -> dict[str, Any]:
    """Spec of the operator's pod."""
    spec: dict[str, Any] = one(manifests, "Deployment")["spec"]["template"]["spec"]
    return spec


def environment(manifests: list[Manifest]) -> dict[str, Any]:
    """The operator's environment variables: text, or the field that they take."""
    variables = operator_pod(manifests)["containers"][0]["env"]
    assert len({variable["name"] for variable in variables}) == len(variables), "a name twice"
    return {
        variable["name"]: variable["value"]
        if "value" in variable
        else variable["valueFrom"]["fieldRef"]["fieldPath"]
        for variable in variables
    }


def test_lint_has_nothing_to_say(helm: Helm) -> None:
    report = helm("lint", "--strict", CHART, "--values", EVERYTHING)
    assert not re.search(r"\[(WARNING|ERROR)\]", report), report


def test_versions_are_those_of_the_code() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "operator" / "pyproject.toml").read_text())["project"]
    assert chart["version"] == chart["appVersion"] == versions.DAYBREAK == project["version"]
    assert chart["annotations"]["daybreak.dev/kuberay-version"] == versions.KUBERAY


def test_defaults_render_these_objects(rendered: list[Manifest]) -> None:
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


def test_operator_settings_by_default(rendered: list[Manifest]) -> None:
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


def test_heads_have_the_cpu_image_where_it_is_named(helm: Helm) -> None:
    rendered = helm.template("--set", "rayImage=r.example/ray:1,rayCpuImage=r.example/cpu:1")
    assert environment(rendered)["DAYBREAK_RAY_HEAD_IMAGE"] == "r.example/cpu:1"


def test_operator_settings_from_values(helm: Helm) -> None:
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


def test_the_operator_understands_its_environment(rendered: list[Manifest]) -> None:
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
        "DAYBREAK_ENGINES": '{"own": {"flags": "none", "port": 80, "readinessPath": "/"}}',
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


def test_the_schema_of_engines_is_the_operators() -> None:
    from pydantic import TypeAdapter

    from daybreak.api.gates.protocol import Protocol
    from daybreak.api.modelserver.profiles import EngineName, EngineProfile, Flags

    engines = json.loads((CHART / "values.schema.json").read_text())["properties"]["engines"]
    one = engines["additionalProperties"]
    fields = EngineProfile.model_fields.values()
    assert set(one["properties"]) == {field.alias for field in fields}
    assert set(one["required"]) == {field.alias for field in fields if field.is_required()}
    assert one["properties"]["flags"]["enum"] == list(Flags)
    assert one["properties"]["protocol"]["enum"] == list(Protocol)
    rules = TypeAdapter(EngineName).json_schema()
    assert engines["propertyNames"] == {"pattern": rules["pattern"], "maxLength": rules["maxLength"]}


TEMPLATES = (
    *("", "{}", "{", "}", "{{", "{weights", "weights}", "--model={weights}", "{port}{drain}", "{{port}}"),
    *(
        "{weight}",
        "a{weight}",
        "{Weights}",
        "{weights{weight}",
        "{weight{weights}",
        "{wei ghts}",
        "{we:ghts}",
    ),
    *("{weight{", "{{weight}}", '{"a": {"b": 1}}', '{"a": "{weight}"}', "$(LWS_GROUP_SIZE)", "{a\n}", "{_}"),
    *("{model}", "/{model}/up", "/{port}", "{}{model}", "{tensor}\n{x}"),
)


def test_templates_that_the_schema_takes_are_those_that_the_operator_takes() -> None:
    from daybreak.api.modelserver.profiles import OF_PATHS, VALUES, unknown

    schema = json.loads((CHART / "values.schema.json").read_text())
    one = schema["properties"]["engines"]["additionalProperties"]["properties"]
    path = one["readinessPath"]["allOf"][0]["pattern"]
    assert one["answerPath"] == one["readinessPath"]
    for pattern, values in ((schema["definitions"]["engineTemplate"]["pattern"], VALUES), (path, OF_PATHS)):
        taken = {text for text in TEMPLATES if re.search(pattern, text)}
        assert taken == {text for text in TEMPLATES if not list(unknown([text], values))}
        assert {"{weight}", "{", "{model}"} - taken == {"{weight}"}


def test_everything_differs_from_the_defaults() -> None:
    """The file really is everything: each value of values.yaml stands in it, and away from its default."""
    everything = yaml.safe_load(EVERYTHING.read_text())
    usual = dict(leaves(defaults()))
    same = {"crds.enabled"}  # off, there would be no CRD to render
    for path, value in usual.items():
        given: Any = everything
        for step in path.split("."):
            assert step in given, f"values-everything.yaml has no {path}"
            given = given[step]
        assert (given == value) == (path in same), f"{path} is its default, {value!r}"


def test_every_value_has_an_effect(helm: Helm) -> None:
    """Each value of values-everything.yaml alone changes what is rendered; a few need another one beside."""

    def render(*options: str, crds: bool) -> str:
        # The definitions are 95 % of what is rendered, and four fifths of the time.
        without = () if crds else ("--set", "crds.enabled=false")
        return helm("template", "daybreak", CHART, *without, *options)

    bases = {crds: render(crds=crds) for crds in (False, True)}
    with_others = {
        "serviceAccount.create": [],
        "metrics.serviceMonitor.interval": ["metrics.serviceMonitor.enabled=true"],
        "metrics.serviceMonitor.labels": ["metrics.serviceMonitor.enabled=true"],
        "metrics.podMonitor.interval": ["metrics.podMonitor.enabled=true"],
        "metrics.podMonitor.labels": ["metrics.podMonitor.enabled=true"],
        "metrics.engines.interval": ["metrics.engines.enabled=true"],
        "metrics.engines.labels": ["metrics.engines.enabled=true"],
        **{
            f"prePull.{name}": ["prePull.enabled=true"]
            for name in (
                "images",
                "weights",
                "imagePullSecrets",
                "nodeSelector",
                "tolerations",
                "priorityClassName",
            )
        },
        "operatorNetworkPolicy.metricsFrom": ["operatorNetworkPolicy.enabled=true"],
    }
    everything = yaml.safe_load(EVERYTHING.read_text())
    for value in values_table.values():
        if value.name == "crds.enabled":
            given: Any = False
        else:
            given = everything
            for step in value.name.split("."):
                given = given[step]
        needs = [option for pair in with_others.get(value.name, []) for option in ("--set", pair)]
        crds = value.name.startswith("crds.")
        before = render(*needs, crds=crds) if needs else bases[crds]
        after = render(*needs, "--set-json", f"{value.name}={json.dumps(given)}", crds=crds)
        assert after != before, f"{value.name} has no effect"


def test_values_have_comments_and_the_schema_knows_them_all() -> None:
    documented = [value.name for value in values_table.values()]
    assert len(documented) == len(set(documented))
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(defaults(), schema)
    for name in documented:
        part = schema
        for step in name.split("."):
            part = part["properties"][step]
            if "$ref" in part:
                part = schema["definitions"][part["$ref"].rpartition("/")[2]]
    known = set(schema["properties"]) - {"global"}
    assert known == set(defaults())


def test_readme_table_is_current() -> None:
    assert values_table.readme_md() == (CHART / "README.md").read_text(), "run `make generate`"


@pytest.mark.parametrize(
    "option",
    [
        "image.tga=1",
        "imagee.tag=1",
        "rayimage=x",
        "crds.kept=false",
        "watch.namespace=models",
        "watch.namespaces={one,Two}",
        "watch.namespaces={one,one}",
        "watch.namespaces=one\\,two",
        "logLevel=verbose",
        "image.pullPolicy=Sometimes",
        "image.digest=sha256:abc",
        "image.repository=",
        "metrics.serviceMonitor.interval=soon",
        "podLabels.app\\.kubernetes\\.io/component=mine",
        "serviceAccount.create=maybe",
        "tolerations[0].oeprator=Exists",
        "extraEnv[0].vale=1",
        "networkPolicy.egress.apiServerPorts[0]=0",
        "kuberay.namespace=Ray System",
        "kuberay.namespace=",
        "engines.own.port=9000",
        "engines.own.prot=9000",
        "turns.nodeWait=soon",
        "turns.wait=1m",
    ],
)
def test_a_wrong_value_is_refused(helm: Helm, option: str) -> None:
    with pytest.raises(ToolFailed, match="values don't meet the specifications of the schema"):
        helm.template("--set", option)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("args[0]=--model={weights}", "args[0]=--model={weight}"),
        ("env.HOME=a{cache}", "env.HOME=a{home}"),
        ("distributed.workerArgs[0]=-{nodes}", "distributed.workerArgs[0]=-{node}"),
        ("answerPath=/{model}", "answerPath=/{port}"),
    ],
)
def test_a_template_without_a_value_is_refused(helm: Helm, right: str, wrong: str) -> None:
    whole = "engines.own.flags=none,engines.own.port=1,engines.own.readinessPath=/,engines.own."
    assert helm.template("--set", whole + right)
    with pytest.raises(ToolFailed, match="values don't meet the specifications of the schema"):
        helm.template("--set", whole + wrong)


def test_a_chart_above_may_hand_down_globals(helm: Helm) -> None:
    assert helm.template("--set", "global.region=north")


@pytest.mark.parametrize("name", ["DAYBREAK_LOG_LEVEL", "POD_NAME"])
def test_a_variable_of_the_chart_is_not_set_twice(helm: Helm, name: str) -> None:
    with pytest.raises(ToolFailed, match=f"extraEnv: {name} is set by the chart already"):
        helm.template("--set", f"extraEnv[0].name={name}", "--set", "extraEnv[0].value=x")


def test_a_variable_of_ones_own_is_not_set_twice(helm: Helm) -> None:
    with pytest.raises(ToolFailed, match="extraEnv: A is set by the chart already or named twice"):
        helm.template("--set", "extraEnv[0].name=A", "--set", "extraEnv[1].name=A")


def test_image_by_tag_by_digest_and_by_default(helm: Helm) -> None:
    def image(*options: str) -> str:
        text: str = operator_pod(helm.template(*options))["containers"][0]["image"]
        return text

    digest = "sha256:" + "0" * 64
    assert image() == f"daybreak-operator:{versions.DAYBREAK}"
    assert image("--set", "image.repository=r.example/x,image.tag=v7") == "r.example/x:v7"
    assert image("--set", f"image.tag=v7,image.digest={digest}") == f"daybreak-operator@{digest}"


def test_crds_can_be_left_out_and_kept_or_not(helm: Helm, rendered: list[Manifest]) -> None:
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


def test_crds_are_the_generated_ones(rendered: list[Manifest]) -> None:
    """Through the template come labels and the annotation, and nothing is lost (numbers included)."""
    files = sorted((CHART / "files" / "crds").glob("*.yaml"))
    made = {
        found["metadata"]["name"]: found["spec"] for found in of_kind(rendered, "CustomResourceDefinition")
    }
    written = [load(file.read_text())[0] for file in files]
    assert made == {found["metadata"]["name"]: found["spec"] for found in written}


def test_one_operator_at_a_time(rendered: list[Manifest]) -> None:
    spec = one(rendered, "Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_no_command_stands_before_the_images_entrypoint(rendered: list[Manifest]) -> None:
    """What it starts with hears signals before Python does."""
    (container,) = operator_pod(rendered)["containers"]
    assert "command" not in container


def test_probes_ask_the_operators_own_server(rendered: list[Manifest]) -> None:
    (container,) = operator_pod(rendered)["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}


def test_the_operators_policy_lets_it_reach_all_that_it_asks(helm: Helm) -> None:
    options = ("operatorNetworkPolicy.enabled=true", "networkPolicy.egress.apiServerPorts={7443}")
    manifests = helm.template(*(each for option in options for each in ("--set", option)))
    rules = one(manifests, "NetworkPolicy")["spec"]["egress"]
    opened = [{port["port"] for port in rule.get("ports", [])} for rule in rules]
    assert {7443} in opened
    assert {ports.SERVE, ports.DIRECT, ports.FILL, ports.BATCH, names.GATEWAY_HTTP_PORT} in opened
    # Engines of ModelServers have ports of their own, also ones that only an installation knows.
    server = {names.MANAGED_BY_LABEL: names.MANAGED_BY, names.COMPONENT_LABEL: names.SERVER_COMPONENT}
    peer = {"namespaceSelector": {}, "podSelector": {"matchLabels": server}}
    assert {"to": [peer]} in rules


@pytest.mark.parametrize("options", [(), ("--values", EVERYTHING), ("--set", "nameOverride=night")])
def test_labels_that_others_rely_on(helm: Helm, options: tuple[str, ...]) -> None:
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
    ("watch", "where"),
    [
        ("watch.namespaced=false", {"any": True}),
        ("watch.namespaces={one,two}", {"matchNames": ["one", "two"]}),
    ],
)
def test_engines_are_scraped_where_they_say(helm: Helm, watch: str, where: dict[str, Any]) -> None:
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
        "__meta_kubernetes_pod_label_daybreak_dev_service": "server.chat",
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
def test_one_value_has_operator_gateways_and_ray_pods_scraped(
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
def test_gateways_and_ray_pods_are_scraped_where_they_are(
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
    labels = relabelled(endpoint["relabelings"], {"__meta_kubernetes_pod_label_daybreak_dev_service": "chat"})
    assert labels is not None
    assert labels["llm_service"] == "chat"


def relabelled(rules: list[dict[str, Any]], labels: dict[str, str]) -> dict[str, str] | None:
    """What Prometheus makes of a target's labels; None: it is left out."""
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
def test_what_is_watched(helm: Helm, options: str, namespaces: str, nodes: str) -> None:
    settings = environment(helm.template("--set", options))
    assert (settings["DAYBREAK_NAMESPACE"], settings["DAYBREAK_WATCH_NODES"]) == (namespaces, nodes)


def test_namespaced_mode_has_nothing_of_the_clusters_scope(helm: Helm) -> None:
    manifests = helm.template("--set", "watch.namespaced=true,crds.enabled=false", namespace="models")
    for manifest in manifests:
        assert manifest["metadata"].get("namespace") == "models", f"{manifest['kind']} has another scope"
    assert not {m["kind"] for m in manifests} & {"ClusterRole", "ClusterRoleBinding"}


def pulling(helm: Helm, *options: str) -> dict[str, Any]:
    """Spec of the pods that pull images ahead."""
    manifests = helm.template("--set", "prePull.enabled=true", *options)
    spec: dict[str, Any] = one(manifests, "DaemonSet")["spec"]["template"]["spec"]
    return spec


def test_images_are_pulled_ahead_only_where_it_is_wanted(helm: Helm, rendered: list[Manifest]) -> None:
    assert not of_kind(rendered, "DaemonSet")
    pod = pulling(helm)
    assert [container["image"] for container in pod["containers"]] == [f"daybreak-ray:{versions.DAYBREAK}"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def test_what_pulls_holds_no_device_and_no_rights(helm: Helm) -> None:
    pod = pulling(helm, "--set", "prePull.images[0]=r.example/x:1")
    assert pod["automountServiceAccountToken"] is False
    assert len(pod["containers"]) == 2
    for container in pod["containers"]:
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]


def test_what_pulls_names_no_user_where_the_platform_assigns_them(helm: Helm) -> None:
    assert pulling(helm)["securityContext"]["runAsUser"] == 65532
    context = pulling(helm, "--set", "assignedUsers=true")["securityContext"]
    assert not {"runAsUser", "runAsGroup"} & context.keys()
    assert context["runAsNonRoot"] is True


def test_a_selector_of_ones_own_takes_the_place_of_the_default(helm: Helm) -> None:
    assert pulling(helm, "--set", "prePull.nodeSelector.pool=gpu")["nodeSelector"] == {"pool": "gpu"}


def test_weights_are_pulled_as_image_volumes(helm: Helm) -> None:
    pod = pulling(helm, "--set", "prePull.weights[0]=r.example/w:1")
    assert [volume["image"]["reference"] for volume in pod["volumes"]] == ["r.example/w:1"]
    assert pod["containers"][0]["volumeMounts"][0]["name"] == pod["volumes"][0]["name"]


def test_names_stay_within_kubernetes_limits(helm: Helm) -> None:
    release = "r" * 53  # Helm's own limit
    for manifest in load(helm("template", release, CHART)):
        name = manifest["metadata"]["name"]
        if manifest["kind"] != "CustomResourceDefinition":
            assert len(name) <= 63, name
            assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
