"""The chart's values: their schema, their defaults, and their effect."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from scripts.docs import values_table
from tests.chart.tools import CHART, EVERYTHING, Helm, ToolFailed


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


def test_engine_schema_equals_engine_profile_of_operator() -> None:
    from pydantic import TypeAdapter

    from daybreak.api.gates.protocol import Protocol
    from daybreak.api.modelserver.profiles import EngineName, EngineProfile, Flags

    engines = json.loads((CHART / "values.schema.json").read_text())["properties"]["engines"]
    one = engines["additionalProperties"]
    fields = EngineProfile.model_fields.values()
    assert set(one["properties"]) == {field.alias for field in fields}
    assert set(one["required"]) == {field.alias for field in fields if field.is_required()}
    assert one["properties"]["flagStyle"]["enum"] == list(Flags)
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


def test_schema_and_operator_accept_same_engine_templates() -> None:
    from daybreak.api.modelserver.profiles import OF_PATHS, VALUES, unknown

    schema = json.loads((CHART / "values.schema.json").read_text())
    one = schema["properties"]["engines"]["additionalProperties"]["properties"]
    path = one["readinessPath"]["allOf"][0]["pattern"]
    assert one["probePath"] == one["readinessPath"]
    for pattern, values in ((schema["definitions"]["engineTemplate"]["pattern"], VALUES), (path, OF_PATHS)):
        taken = {text for text in TEMPLATES if re.search(pattern, text)}
        assert taken == {text for text in TEMPLATES if not list(unknown([text], values))}
        assert {"{weight}", "{", "{model}"} - taken == {"{weight}"}


def test_values_everything_sets_each_value_to_non_default() -> None:
    """The file is complete: it has each value of values.yaml, with a value other than the default."""
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
    """Each value of values-everything.yaml alone changes the output; a few need another value too."""

    def render(*options: str, crds: bool) -> str:
        # The definitions are 95 % of the output, and four fifths of the time.
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
        "operatorNetworkPolicy.metricsAllowFrom": ["operatorNetworkPolicy.enabled=true"],
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


def test_documented_values_are_unique_and_known_to_schema() -> None:
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
        "acceleratorQueue.nodeProvisioningDelay=soon",
        "turns.wait=1m",
    ],
)
def test_invalid_value_is_rejected(helm: Helm, option: str) -> None:
    with pytest.raises(ToolFailed, match="values don't meet the specifications of the schema"):
        helm.template("--set", option)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("args[0]=--model={weights}", "args[0]=--model={weight}"),
        ("env.HOME=a{cache}", "env.HOME=a{home}"),
        ("distributed.workerArgs[0]=-{nodes}", "distributed.workerArgs[0]=-{node}"),
        ("probePath=/{model}", "probePath=/{port}"),
    ],
)
def test_unknown_placeholder_in_engine_template_is_rejected(helm: Helm, right: str, wrong: str) -> None:
    whole = "engines.own.flagStyle=none,engines.own.port=1,engines.own.readinessPath=/,engines.own."
    assert helm.template("--set", whole + right)
    with pytest.raises(ToolFailed, match="values don't meet the specifications of the schema"):
        helm.template("--set", whole + wrong)


def test_global_values_of_parent_chart_are_accepted(helm: Helm) -> None:
    assert helm.template("--set", "global.region=north")


@pytest.mark.parametrize("name", ["DAYBREAK_LOG_LEVEL", "POD_NAME"])
def test_extra_variable_already_set_by_chart_is_rejected(helm: Helm, name: str) -> None:
    with pytest.raises(ToolFailed, match=f"extraEnv: {name} is set by the chart already"):
        helm.template("--set", f"extraEnv[0].name={name}", "--set", "extraEnv[0].value=x")


def test_duplicate_extra_variable_is_rejected(helm: Helm) -> None:
    with pytest.raises(ToolFailed, match="extraEnv: A is set by the chart already or named twice"):
        helm.template("--set", "extraEnv[0].name=A", "--set", "extraEnv[1].name=A")
