"""The operator's environment variables."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from daybreak.api.modelserver.profiles import EngineProfile, Engines, profiles
from daybreak.api.pods.gateway_pods import GatewayPods
from daybreak.settings import Egress, InvalidSettings, Settings

OWN = {"image": "own:1", "args": ["--at={port}"], "flagStyle": "dashes", "port": 8090, "readinessPath": "/up"}
"""A custom engine of the installation."""


def test_empty_environment_gives_defaults() -> None:
    settings = Settings.from_environment({})
    assert settings.namespaces == ()
    assert settings.watch_nodes
    assert settings.operator_namespace == "default"
    assert settings.network_policy
    assert settings.http_port == 8080
    assert settings.engines == profiles()
    assert settings.identity


def test_all_settings_are_read_from_environment() -> None:
    settings = Settings.from_environment(
        {
            "DAYBREAK_NAMESPACE": "models",
            "DAYBREAK_WATCH_NODES": "true",
            "DAYBREAK_OPERATOR_NAMESPACE": "daybreak",
            "DAYBREAK_KUBERAY_NAMESPACE": "kuberay",
            "DAYBREAK_RAY_IMAGE": "r:1",
            "DAYBREAK_RAY_CPU_IMAGE": "c:1",
            "DAYBREAK_RAY_HEAD_IMAGE": "h:1",
            "DAYBREAK_NETWORK_POLICY": "False",
            "DAYBREAK_EGRESS": '{"gateways": false, "apiServerPorts": [7443], "rayPods": [{"to": []}]}',
            "DAYBREAK_GATEWAY_IMAGE": "g:1",
            "DAYBREAK_GATEWAY_PULL_SECRETS": "s, t",
            "DAYBREAK_GATEWAY_REPLICAS": "3",
            "DAYBREAK_ASSIGNED_USERS": "true",
            "DAYBREAK_GATEWAY_PODS": '{"priorityClassName": "high"}',
            "DAYBREAK_GATEWAY_TOKENS": "true",
            "DAYBREAK_ENGINES": json.dumps({"own": OWN}),
            "DAYBREAK_ENGINE_METRICS_FROM": '[{"podSelector": {}}]',
            "DAYBREAK_NODE_WAIT": "2m30s",
            "DAYBREAK_LOG_LEVEL": "DEBUG",
            "DAYBREAK_HTTP_PORT": "9000",
            "POD_NAME": "operator-1",
        }
    )
    assert settings == Settings(
        ("models",),
        True,
        "daybreak",
        "operator-1",
        "kuberay",
        "r:1",
        "c:1",
        "h:1",
        False,
        Egress(gateways=False, api_server_ports=[7443], ray_pods=[{"to": []}]),
        "g:1",
        ("s", "t"),
        3,
        True,
        True,
        GatewayPods(priority_class_name="high"),
        Engines({**profiles(), "own": EngineProfile.model_validate(OWN)}),
        ({"podSelector": {}},),
        timedelta(seconds=150),
        "debug",
        9000,
    )
    platform = settings.platform
    assert (platform.gateway_egress, platform.api_server_ports) == (False, (7443,))
    assert platform.node_wait == timedelta(seconds=150)
    assert platform.ray_egress == ({"to": []},)
    assert platform.gateway_pods.priority_class_name == "high"
    assert (platform.kuberay_namespace, platform.ray_image, platform.network_policy) == (
        "kuberay",
        "r:1",
        False,
    )


@pytest.mark.parametrize(
    ("text", "namespaces", "lease_in"),
    [
        ("", (), "default"),
        ("one", ("one",), "one"),
        ("b, a,b,", ("b", "a"), "default"),
    ],
)
def test_namespaces_determine_operator_namespace_and_node_watch(
    text: str, namespaces: tuple[str, ...], lease_in: str
) -> None:
    settings = Settings.from_environment({"DAYBREAK_NAMESPACE": text})
    assert (settings.namespaces, settings.operator_namespace) == (namespaces, lease_in)
    assert settings.watch_nodes == (not namespaces), "what no Role can give is not asked for"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NAMESPACE", "a b"),
        ("NAMESPACE", "a,B"),
        ("NAMESPACE", '["a","b"]'),
        ("NETWORK_POLICY", "maybe"),
        ("ASSIGNED_USERS", "1"),
        ("LOG_LEVEL", "loud"),
        ("HTTP_PORT", "http"),
        ("HTTP_PORT", "0"),
        ("GATEWAY_REPLICAS", "0"),
        ("NODE_WAIT", "soon"),
        ("NODE_WAIT", "90"),
        ("NODE_WAIT", "61m"),
    ],
)
def test_invalid_value_is_reported_with_variable_name(name: str, value: str) -> None:
    with pytest.raises(InvalidSettings, match=re.escape(f"DAYBREAK_{name} is '{value}'")):
        Settings.from_environment({f"DAYBREAK_{name}": value})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Invalid JSON"),
        ('{"priorityClass": "a"}', "gateway.priorityClass: there is no such field"),
        ('{"resources": {"limits": {"memory": "much"}}}', "gateway.resources.limits.memory: "),
        ('{"affinity": {"nodeAfinity": {}}}', "gateway.affinity.nodeAfinity: .*did you mean nodeAffinity?"),
        (
            '{"podTemplate": {"spec": {"hostNetwork": true}}}',
            "gateway.podTemplate.spec.hostNetwork: Daybreak owns",
        ),
        (
            '{"podTemplate": {"spec": {"containers": [{"name": "gateway", "image": "a"}]}}}',
            r"gateway.podTemplate.spec.containers\[0\].image: Daybreak owns this field: use gateway.image",
        ),
        ('{"podTemplate": {"spec": {"volumes": [{"name": "run"}]}}}', "a volume of Daybreak's own"),
    ],
)
def test_invalid_gateway_pods_are_reported_with_field(text: str, words: str) -> None:
    with pytest.raises(InvalidSettings, match=f"^DAYBREAK_GATEWAY_PODS: .*{words}"):
        Settings.from_environment({"DAYBREAK_GATEWAY_PODS": text})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "Invalid JSON"),
        ('{"gateway": true}', "networkPolicy.egress.gateway: there is no such field"),
        ('{"apiServerPorts": [0]}', r"networkPolicy.egress.apiServerPorts\[0\]"),
    ],
)
def test_invalid_egress_is_reported_with_field(text: str, words: str) -> None:
    with pytest.raises(InvalidSettings, match=f"^DAYBREAK_EGRESS: .*{words}"):
        Settings.from_environment({"DAYBREAK_EGRESS": text})


@pytest.mark.parametrize(
    ("engines", "words"),
    [
        ({"own": OWN | {"port": None}}, "engines.own.port: "),
        ({"own": {"flagStyle": "none", "readinessPath": "/"}}, "engines.own.port: this field is needed"),
        ({"own": OWN | {"colour": "red"}}, "engines.own.colour: there is no such field"),
        ({"own": OWN | {"protocol": "grpc"}}, "engines.own.protocol: "),
        (
            {"own": OWN | {"args": ["--model={weight}"]}},
            "engines.own: {weight} has no value; did you mean {weights}?",
        ),
        ({"own": OWN | {"env": {"A": "{home}"}}}, "engines.own: {home} has no value; there are {weights}, "),
        (
            {"own": OWN | {"readinessPath": "/{port}"}},
            "engines.own.readinessPath: {port} has no value; there is {model}",
        ),
        ({"vllm": OWN}, "engines.vllm: there is such an engine already; take another name"),
        ({"Own": OWN}, "engines.Own"),
    ],
)
def test_invalid_custom_engine_is_omitted_with_reason(engines: dict[str, Any], words: str) -> None:
    """The operator keeps running: without it, no model in the cluster would wake."""
    found = Settings.from_environment({"DAYBREAK_ENGINES": json.dumps({"other": OWN} | engines)}).engines
    [(name, reason)] = found.refused.items()
    assert [name] == list(engines)
    assert words in reason
    assert found == {**profiles(), "other": EngineProfile.model_validate(OWN)}, "all others stay as they are"


@pytest.mark.parametrize("text", ["{", "[]", '"own"'])
def test_engines_that_are_no_json_object_are_rejected(text: str) -> None:
    """The chart cannot render such a value."""
    with pytest.raises(InvalidSettings, match=r"^DAYBREAK_ENGINES: "):
        Settings.from_environment({"DAYBREAK_ENGINES": text})
