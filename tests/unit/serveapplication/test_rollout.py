"""Rollouts of changes of an application, and rollbacks if the new revision cannot start."""

from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.common.config_map import Content
from tests.unit.serveapplication.applications import HELD
from tests.unit.serveapplication.rolling import BROKEN, FIRST, QUIET, SECOND, SETTLED, Rolling


@pytest.fixture
async def world() -> Rolling:
    """Return a running application with code in a ConfigMap."""
    return await Rolling().up()


def kinds(world: Rolling) -> list[str]:
    """Return the kinds of the applied objects, in order."""
    return [each.desired["kind"] for each in world.plan.targets]


async def test_what_runs_is_a_revision_that_is_kept(world: Rolling) -> None:
    assert world.rollout == ("Complete", 1)
    assert kinds(world)[0] == "ControllerRevision"
    [kept] = [each.desired for each in world.plan.targets if each.desired["kind"] == "ControllerRevision"]
    assert kept["metadata"]["name"].startswith("application.pipeline-")
    assert kept["metadata"]["ownerReferences"][0]["kind"] == "ServeApplication"
    assert kept["data"] == {
        "importPath": "pipeline:build",
        "code": {"configMap": "pipeline-code"},
        "deployments": [{"cpu": "100m", "name": "Pipeline"}, {"cpu": "500m", "name": "Length"}],
        "files": "one",
    }


async def test_other_files_are_another_revision_beside_the_first_cluster(world: Rolling) -> None:
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    assert world.rollout == ("Progressing", 2)
    assert world.status is not None
    assert world.status["rollout"]["strategy"] == "BlueGreen"
    assert world.files == "two"
    world.comes_up()
    await world.steps(SETTLED)
    assert world.condition("Ready")[:2] == ("True", "Serving")
    assert world.condition("Reconciling")[2].startswith("revision 2 is rolled out by BlueGreen")
    world.serves(SECOND)
    await world.steps(1)
    assert world.rollout == ("Complete", 2)


async def test_a_broken_import_goes_back_to_the_cluster_that_serves(world: Rolling) -> None:
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    world.comes_up("DEPLOY_FAILED", BROKEN)
    await world.steps(1)
    assert world.rollout == ("Progressing", 2), "the reported failure may belong to the previous revision"
    await world.steps(SETTLED)
    assert world.rollout == ("RollingBack", 1)
    assert world.files == "one"
    assert world.called_off == SECOND
    assert world.gate == ("Updating", "Open"), "clients notice nothing"

    world.serves(FIRST)
    await world.steps(2)
    assert world.rollout == ("RolledBack", 1)
    assert world.called_off == ""
    assert world.condition("Ready")[:2] == ("True", "Serving")
    status, reason, message = world.condition("Stalled")
    assert (status, reason) == ("True", "RolledBack")
    assert "revision 2 could not start, and revision 1 runs again" in message
    assert "No module named 'pipelines'" in message

    await world.steps(3600)
    assert world.rollout == ("RolledBack", 1), "it is not tried again by itself"
    world.contents["pipeline-code"] = Content(digest="three")
    await world.steps()
    assert world.rollout == ("Progressing", 3)
    assert world.files == "three"


async def test_files_that_are_put_back_are_the_revision_that_runs(world: Rolling) -> None:
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    world.comes_up("DEPLOY_FAILED", BROKEN)
    await world.steps(SETTLED)
    world.serves(FIRST)
    await world.steps(2)
    world.contents["pipeline-code"] = Content(digest="one")
    await world.steps()
    assert world.rollout == ("Complete", 1)
    assert world.condition("Stalled")[0] == "False"


async def test_a_sleep_ends_what_could_not_be_made_again(world: Rolling) -> None:
    """New pods read the current files, regardless of the revision's name."""
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    world.comes_up("DEPLOY_FAILED", BROKEN)
    await world.steps(SETTLED)
    world.serves(FIRST)
    await world.steps(2)
    world.traffic = QUIET
    await world.steps(7200)
    assert world.gate == ("Asleep", "Closed")
    assert world.ray is None
    assert world.rollout == ("Progressing", 2)


async def test_a_config_map_for_each_version_can_be_gone_back_to_from_sleep() -> None:
    world = await Rolling().up()
    world.spec["code"] = {"configMap": "pipeline-code-2"}
    world.contents["pipeline-code-2"] = Content(digest="two")
    world.traffic = QUIET
    await world.steps(7200)
    assert world.gate == ("Asleep", "Closed")
    assert world.rollout == ("Progressing", 2), "changed in its sleep"
    world.traffic = HELD
    await world.steps()
    assert world.files == "two"
    world.serves(SECOND, "DEPLOY_FAILED", BROKEN)
    await world.steps(1)
    await world.steps(SETTLED)
    assert world.gate[1] == "Closed", "the request that woke it is held for the previous revision"
    world.ray, world.clusters = None, []
    await world.steps(1)
    assert world.files == "one"
    world.serves("pipeline-third")
    await world.steps(SETTLED)
    assert world.rollout == ("RolledBack", 1)
    assert world.gate == ("Awake", "Open")


async def test_another_entry_point_is_taken_in_place_and_goes_back_in_place() -> None:
    world = await Rolling(None).up()
    world.spec["importPath"] = "pipelines:build"
    await world.steps()
    assert world.rollout == ("Progressing", 2)
    assert world.status is not None
    assert world.status["rollout"]["strategy"] == "InPlace"
    world.serves()
    await world.steps(1)
    assert world.rollout == ("Progressing", 2), "Serve has not begun: it reports the previous revision"
    world.serves(FIRST, "DEPLOY_FAILED", BROKEN)
    await world.steps(SETTLED)
    assert world.rollout == ("RollingBack", 1)
    assert world.gate[1] == "Open", "the previous replicas continue to serve"
    assert world.ray is not None
    assert "import_path: pipeline:build" in world.ray["spec"]["serveConfigV2"]
    world.serves()
    await world.steps(1)
    assert world.rollout == ("RolledBack", 1)


async def test_numbers_restart_nothing() -> None:
    world = await Rolling(None).up()
    world.spec["deployments"] = [{"name": "Pipeline", "cpu": "100m", "numReplicas": 3}, {"name": "Length"}]
    world.spec["deployments"][1]["cpu"] = "500m"
    await world.steps()
    world.serves()
    await world.steps(SETTLED)
    assert world.rollout == ("Complete", 2)
    assert world.status is not None
    assert world.status["rollout"]["reason"] == "nothing is restarted by it"


async def test_replace_closes_the_gate_and_holds() -> None:
    world = await Rolling(rollout={"strategy": "Replace"}).up()
    world.contents["pipeline-code"] = Content(digest="two")
    world.traffic = QUIET
    await world.step()
    assert world.gate == ("Replacing", "Closed")
    assert world.condition("Ready")[:2] == ("True", "Replacing")
    assert world.files == "one", "requests in flight finish first"
    decision = await world.steps()
    assert world.files == "two"
    assert world.gate == ("Waking", "Closed")
    world.serves(SECOND)
    decision = await world.steps(SETTLED)
    assert world.rollout == ("Complete", 2)
    assert decision.status.phase == "Awake"


async def test_no_room_for_two_replaces(world: Rolling) -> None:
    pods = [
        {
            "metadata": {
                "name": "w",
                "labels": {
                    names.RAY_CLUSTER_LABEL: SECOND,
                    names.RAY_NODE_TYPE_LABEL: "worker",
                    names.RAY_GROUP_LABEL: "cpu",
                },
            },
            "status": {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes are available",
                        "lastTransitionTime": "2026-05-04T11:00:00Z",
                    }
                ]
            },
        }
    ]
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    world.comes_up()
    world.more["pods"] = tuple(pods)
    await world.step(SETTLED)
    assert world.status is not None
    assert world.status["rollout"]["strategy"] == "Replace"
    assert "0/1 nodes are available" in world.status["rollout"]["reason"]


async def test_with_pause_the_new_one_stays() -> None:
    world = await Rolling(rollout={"onFailure": "Pause"}).up()
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    world.comes_up("DEPLOY_FAILED", BROKEN)
    await world.steps(SETTLED)
    assert world.rollout == ("Failed", 2)
    assert world.condition("Ready")[0] == "True", "the first cluster serves"


@pytest.mark.parametrize(
    ("spec", "annotations"),
    [
        ({"rollout": {"paused": True}}, {}),
        ({}, {names.ROLLOUT_PAUSED_ANNOTATION: "true"}),
    ],
)
async def test_a_pause_begins_nothing(
    world: Rolling, spec: dict[str, Any], annotations: dict[str, str]
) -> None:
    world.spec |= spec
    world.annotations = annotations
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    assert world.rollout == ("Paused", 1)
    assert world.files == "one"
    world.spec["rollout"], world.annotations = {}, {}
    await world.steps()
    assert world.rollout == ("Progressing", 2)


async def test_an_earlier_revision_by_its_number() -> None:
    world = await Rolling(None).up()
    world.spec["args"] = {"good": ["fine"]}
    await world.steps()
    world.serves()
    await world.steps(SETTLED)
    assert world.rollout == ("Complete", 2)
    world.spec["rollout"] = {"revision": 1}
    await world.steps()
    world.serves()
    await world.steps(SETTLED)
    assert world.rollout == ("Complete", 1)
    assert world.ray is not None
    assert "good" not in world.ray["spec"]["serveConfigV2"]


async def test_one_whose_files_are_gone_cannot_be_asked_for(world: Rolling) -> None:
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    world.comes_up()
    world.serves(SECOND)
    await world.steps(SETTLED)
    assert world.rollout == ("Complete", 2)
    world.annotations = {names.ROLLOUT_REVISION_ANNOTATION: "1"}
    await world.steps()
    assert world.rollout == ("Blocked", 2)
    status, reason, message = world.condition("Stalled")
    assert (status, reason) == ("True", "RolloutBlocked")
    assert "revision 1 cannot be made again: ConfigMap pipeline-code now contains other files" in message
    assert world.files == "two"


@pytest.mark.parametrize("content", [Content(missing=True), Content(awaited=True), Content()])
async def test_files_of_which_nothing_is_known_are_those_of_before(world: Rolling, content: Content) -> None:
    world.contents["pipeline-code"] = content
    await world.steps()
    assert world.rollout == ("Complete", 1)
    assert world.files == "one"


async def test_code_that_is_not_there_disturbs_nothing(world: Rolling) -> None:
    world.spec["code"] = {"configMap": "other"}
    world.contents["other"] = Content(missing=True)
    await world.steps()
    assert world.rollout == ("Complete", 1)
    assert world.condition("Stalled")[:2] == ("True", "CodeNotFound")
    assert world.condition("Ready")[:2] == ("True", "Serving")
    world.contents["other"] = Content(digest="two")
    await world.steps()
    assert world.rollout == ("Progressing", 2)


async def test_before_its_code_is_looked_for_there_is_no_revision() -> None:
    world = Rolling()
    world.contents["pipeline-code"] = Content(awaited=True)
    await world.steps()
    assert "ControllerRevision" not in kinds(world)
    assert world.status is not None
    assert "rollout" not in world.status


async def test_the_first_start_has_nothing_to_go_back_to() -> None:
    world = Rolling()
    await world.steps()
    world.serves(FIRST, "DEPLOY_FAILED", BROKEN)
    await world.steps(SETTLED)
    assert world.rollout == ("Progressing", 1)
    assert world.condition("Stalled")[:2] == ("True", "ModelFailed")
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    assert world.files == "two", "a correction is taken as it comes"


async def test_without_a_gateway_a_second_cluster_takes_over_as_well() -> None:
    world = Rolling()
    world.traffic = None
    await world.up()
    assert world.rollout == ("Complete", 1)
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    world.comes_up()
    await world.steps(1)
    world.serves(SECOND)
    await world.steps(1)
    assert world.rollout == ("Complete", 2), "the files of the first one have gone, and nothing else happens"


async def test_the_first_cluster_is_no_answer_of_the_second_one(world: Rolling) -> None:
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    world.serves(FIRST)
    await world.steps(SETTLED)
    assert world.rollout == ("Progressing", 2), "KubeRay has not begun"
