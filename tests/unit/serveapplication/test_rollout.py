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


async def test_running_application_is_recorded_as_revision(world: Rolling) -> None:
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


async def test_changed_files_start_new_revision_on_second_cluster(world: Rolling) -> None:
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


async def test_failed_import_rolls_back_to_serving_cluster(world: Rolling) -> None:
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


async def test_restored_files_complete_running_revision(world: Rolling) -> None:
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


async def test_sleep_ends_rollback_to_revision_with_changed_files(world: Rolling) -> None:
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


async def test_rollback_after_wake_uses_config_map_of_previous_revision() -> None:
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


async def test_changed_import_path_is_rolled_out_and_rolled_back_in_place() -> None:
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


async def test_changed_replica_count_completes_without_restart() -> None:
    world = await Rolling(None).up()
    world.spec["deployments"] = [{"name": "Pipeline", "cpu": "100m", "numReplicas": 3}, {"name": "Length"}]
    world.spec["deployments"][1]["cpu"] = "500m"
    await world.steps()
    world.serves()
    await world.steps(SETTLED)
    assert world.rollout == ("Complete", 2)
    assert world.status is not None
    assert world.status["rollout"]["reason"] == "nothing is restarted by it"


async def test_replace_strategy_closes_gate_until_new_revision_serves() -> None:
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


async def test_rollout_uses_replace_strategy_if_second_cluster_does_not_fit(world: Rolling) -> None:
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


async def test_failed_revision_stays_if_on_failure_is_pause() -> None:
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
async def test_paused_rollout_starts_no_new_revision(
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


async def test_earlier_revision_is_restored_by_number() -> None:
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


async def test_rollout_to_revision_with_changed_files_is_blocked(world: Rolling) -> None:
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
async def test_unknown_files_keep_current_revision(world: Rolling, content: Content) -> None:
    world.contents["pipeline-code"] = content
    await world.steps()
    assert world.rollout == ("Complete", 1)
    assert world.files == "one"


async def test_missing_code_is_reported_and_current_revision_serves(world: Rolling) -> None:
    world.spec["code"] = {"configMap": "other"}
    world.contents["other"] = Content(missing=True)
    await world.steps()
    assert world.rollout == ("Complete", 1)
    assert world.condition("Stalled")[:2] == ("True", "CodeNotFound")
    assert world.condition("Ready")[:2] == ("True", "Serving")
    world.contents["other"] = Content(digest="two")
    await world.steps()
    assert world.rollout == ("Progressing", 2)


async def test_no_revision_is_created_before_code_is_read() -> None:
    world = Rolling()
    world.contents["pipeline-code"] = Content(awaited=True)
    await world.steps()
    assert "ControllerRevision" not in kinds(world)
    assert world.status is not None
    assert "rollout" not in world.status


async def test_failed_first_revision_is_not_rolled_back() -> None:
    world = Rolling()
    await world.steps()
    world.serves(FIRST, "DEPLOY_FAILED", BROKEN)
    await world.steps(SETTLED)
    assert world.rollout == ("Progressing", 1)
    assert world.condition("Stalled")[:2] == ("True", "ModelFailed")
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    assert world.files == "two", "a correction is taken as it comes"


async def test_second_cluster_completes_rollout_without_gateway() -> None:
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


async def test_status_of_first_cluster_does_not_complete_second_revision(world: Rolling) -> None:
    world.contents["pipeline-code"] = Content(digest="two")
    await world.steps()
    world.serves(FIRST)
    await world.steps(SETTLED)
    assert world.rollout == ("Progressing", 2), "KubeRay has not begun"
