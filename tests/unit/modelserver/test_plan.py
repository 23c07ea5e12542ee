"""Deployments that another operator, or an operator with other engines, created."""

import json
from typing import Any

import pytest

from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.profiles import with_own
from daybreak.kinds.modelserver.decide.plan import make_plan, objects
from daybreak.kinds.modelserver.functions import view_of
from daybreak.kinds.modelserver.objects.deployment import configuration
from daybreak.kinds.modelserver.objects.network import front_service
from daybreak.kinds.modelserver.objects.revisions import controller_revision
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.manifests.keys import key_of
from daybreak.manifests.plan import Live
from daybreak.manifests.resources import SERVICES
from tests.unit.live import beside
from tests.unit.modelserver.rolling import ANSWERS, Rolling
from tests.unit.modelserver.servers import NOW, PLATFORM, live, manifest, observe, pod

PROFILE = {
    "image": "own:1",
    "args": ["--at={port}"],
    "flagStyle": "none",
    "port": 8090,
    "readinessPath": "/up",
}


def kept(answers: bool, spec: dict[str, Any], **profile: Any) -> bool:
    """Return True if running pods stay after the profile and the spec have changed."""
    before = with_own(json.dumps({"own": PROFILE}))
    after = with_own(json.dumps({"own": PROFILE | profile}))
    one = ModelServer.from_manifest(manifest(engine="own"), before)
    found = live(one)
    runs = configuration(found)
    whole = manifest({"probedConfiguration": runs} if answers else {}, engine="own", **spec)
    two = ModelServer.from_manifest(whole, after)
    observed = Observed(whole, two, (), NOW, None, deployment=found, pods=(pod(one, runs=runs),))
    owned = objects(view_of(observed), PLATFORM)
    plan = make_plan(view_of(observed), owned, beside(owned, found))
    [desired] = [each.desired for each in plan.targets if each.desired["kind"] == "Deployment"]
    return bool(desired["spec"]["template"] == found["spec"]["template"])


@pytest.mark.parametrize(
    ("answers", "spec", "profile", "stays"),
    [
        (True, {}, {}, True),
        (True, {}, {"args": ["--at={port}", "--new"]}, True),
        (False, {}, {"args": ["--at={port}", "--new"]}, False),
        (True, {"env": [{"name": "A", "value": "b"}]}, {}, False),
        (True, {}, {"port": 9000}, False),
        (True, {}, {"readinessPath": "/ready"}, False),
    ],
)
def test_answering_pods_stay_if_spec_port_and_path_are_unchanged(
    answers: bool, spec: dict[str, Any], profile: dict[str, Any], stays: bool
) -> None:
    assert kept(answers, spec, **profile) is stays


def test_only_current_and_recent_revisions_are_kept() -> None:
    world = Rolling(rollout={"revisionHistoryLimit": 1}).up()
    for number in (2, 3, 4):
        world.edit(image=f"engine:{number}")
        world.step()
        world.step()
        world.pods = [world.pod()]
        world.step(ANSWERS)
    observed = world.look()
    known = [controller_revision(world.server, each) for each in world.known]
    owned = objects(view_of(observed), PLATFORM)
    plan = make_plan(view_of(observed), owned, beside(owned, world.deployment, labeled=known))
    written = [each.desired for each in plan.targets if each.desired["kind"] == "ControllerRevision"]
    assert [each["revision"] for each in written] == [4], "the one that runs"
    assert written[0]["data"]["image"] == "engine:4"
    assert "sleep" not in written[0]["data"]
    assert sorted(each["revision"] for each in plan.surplus) == [1, 2], "one that is not in use is kept"


@pytest.mark.parametrize(("nodes", "foreign"), [(1, ()), (2, ("Service/chat-server",))])
def test_group_reports_service_of_another_server_as_foreign(nodes: int, foreign: tuple[str, ...]) -> None:
    spread: dict[str, Any] = {"accelerator": {"kind": "gpu"}, "parallelism": {"tensor": 2}, "nodes": nodes}
    metadata = manifest()["metadata"] | {"name": "chat-server", "uid": "u-2"}
    front = front_service(ModelServer.from_manifest(manifest() | {"metadata": metadata}), 20000)
    view = view_of(observe(spec=spread))
    there = Live({(SERVICES, key_of(front)): front}, {})
    plan = make_plan(view, objects(view, PLATFORM), there)
    assert plan.foreign == foreign
