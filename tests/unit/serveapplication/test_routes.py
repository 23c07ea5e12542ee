"""Routes of an application: allowed paths, and separate Serve applications at some of them."""

from typing import Any

import pytest
import yaml

from daybreak.api.schema.custom_object import InvalidSpec
from daybreak.api.serveapplication.validation import problems
from daybreak.kinds.serveapplication.objects.serve_config import application_names, serve_config
from tests.unit.serveapplication.applications import application
from tests.unit.serveapplication.rolling import BROKEN, FIRST, SETTLED, Rolling, said_by_serve

OWN = {"prefix": "/length", "importPath": "length:build", "args": {"most": 7}}
DEPLOYMENTS = [{"name": "Pipeline"}, {"name": "Length", "route": "/length"}]
TWO: dict[str, Any] = {"routes": [{"prefix": "/words"}, OWN], "deployments": DEPLOYMENTS}


def test_route_with_import_path_is_separate_serve_application() -> None:
    own, other = yaml.safe_load(serve_config(application(**TWO)))["applications"]
    assert (own["name"], own["route_prefix"], own["import_path"]) == ("app", "/", "pipeline:build")
    assert [each["name"] for each in own["deployments"]] == ["Pipeline"]
    assert (other["name"], other["route_prefix"]) == ("app-length", "/length")
    assert (other["import_path"], other["args"]) == ("length:build", {"most": 7})
    assert [each["name"] for each in other["deployments"]] == ["Length"]


def test_similar_prefixes_have_different_application_names() -> None:
    routes = [{"prefix": prefix, "importPath": "a:b"} for prefix in ("/a/b", "/a-b", "/A-b")]
    assert len(set(application_names(application(routes=routes)))) == 4


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"deployments": [{"name": "A", "route": "/x"}]}, "no route /x has an importPath"),
        ({"routes": [{"prefix": "/words"}], "deployments": [{"name": "A", "route": "/words"}]}, "no route"),
        ({"routes": [OWN]}, "no deployment belongs to its application"),
        ({"routes": [{"prefix": "/a", "args": {"b": 1}}]}, "they require an importPath of the route"),
        ({"routes": [{"prefix": "/a"}, {"prefix": "/a"}]}, "/a occurs 2 times"),
    ],
)
def test_inconsistent_routes_and_deployments_are_rejected(spec: dict[str, Any], words: str) -> None:
    [message] = problems(application(**spec))
    assert words in message


@pytest.mark.parametrize(
    "prefix", ["words", "/words/", "//", "/a//b", "/..", "/a/../b", "/.", "/-/routes", "/a b", "/%2e", ""]
)
def test_invalid_route_prefix_is_rejected(prefix: str) -> None:
    with pytest.raises(InvalidSpec):
        application(routes=[{"prefix": prefix}])


@pytest.mark.parametrize(
    "spec",
    [
        {"routes": [{"prefix": "/", "importPath": "a:b"}]},
        {"routes": [{"prefix": "/v2"}], "protocol": "V2"},
    ],
)
def test_conflicting_route_settings_are_rejected(spec: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        application(**spec)


async def test_only_routes_with_import_path_create_new_revision() -> None:
    world = await Rolling(None).up()
    world.spec["routes"] = [{"prefix": "/words"}]
    await world.steps()
    assert world.rollout == ("Complete", 1)
    world.spec |= TWO
    await world.steps()
    assert world.rollout == ("Progressing", 2)
    assert world.kept[1].data["routes"] == [OWN]


async def test_rollout_waits_for_all_applications_and_rolls_back_on_failure() -> None:
    pods = [{"name": "pods", "cpu": "2", "memory": "4Gi", "maxPods": 1}]
    first, second = ({**each, "workerGroup": "pods"} for each in DEPLOYMENTS)
    world = await Rolling(None, deployments=[first], workerGroups=pods).up()
    world.spec |= {"routes": [OWN], "deployments": [first, second]}
    await world.steps()
    world.serves()
    await world.steps(SETTLED)
    assert world.rollout == ("Progressing", 2), "Serve does not report the second application yet"

    assert world.ray is not None
    statuses = world.ray["status"]["activeServiceStatus"]["applicationStatuses"]
    statuses["app-length"] = said_by_serve("DEPLOY_FAILED", BROKEN)["applicationStatuses"]["app"]
    await world.steps(1)
    assert world.rollout == ("RollingBack", 1)
    assert world.gate[1] == "Open", "the first application continues"
    assert len(yaml.safe_load(world.ray["spec"]["serveConfigV2"])["applications"]) == 1
    world.serves(FIRST)
    await world.steps(1)
    assert world.rollout == ("RolledBack", 1)
    assert "No module named 'pipelines'" in world.condition("Stalled")[2]
