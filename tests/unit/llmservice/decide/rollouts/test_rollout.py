"""A change of a serving service: effects on its gate, its pods and its conditions."""

from dataclasses import replace

import pytest

from daybreak.api.common import names
from daybreak.api.common.conditions import ConditionType
from tests.unit.llmservice.decide.scenes.rolling import ARGUMENT, IMAGE, NEW_HEAD, NEW_POD, Rolling
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    HEAD,
    WORKER,
    conditions,
    message,
    node,
    unplaced,
)
from tests.unit.llmservice.decide.scenes.services import pod as pod_of
from tests.unit.llmservice.decide.scenes.sleeping import IDLE, gate, view
from tests.unit.llmservice.decision import Decision

REPLACE = {"rollout": {"strategy": "Replace"}}
LATE = 11.0
NEW = "chat-bbbbb"
SERVE = "Failed to update the deployments ['LLMServer:tiny']."


def vacate(world: Rolling) -> Decision:
    """Step until the running revision has drained, its Ray cluster is gone, and the next one is built."""
    drained = world.step(gateway=view(held=3))
    assert gate(drained) == ("Replacing", "Closed", "Cluster")
    gone = world.step(ray_service=None, pods=())
    assert gate(gone) == ("Waking", "Closed", None)
    return gone


def test_rollout_is_complete_after_service_has_answered() -> None:
    world = Rolling().up()
    assert world.phase == ("Complete", "Awake", 1)
    assert world.rollout["lastSuccessfulRevision"] == world.rollout["currentRevision"]
    assert "deadlineTime" not in world.rollout


def test_change_without_capacity_replaces_cluster_and_holds_requests() -> None:
    world = Rolling().up()
    before = world.rollout["currentRevision"]
    world.edit_spec(**IMAGE)
    begun = world.step(gateway=view(in_flight=2))
    assert gate(begun) == ("Replacing", "Closed", None)
    assert world.phase == ("Progressing", "Replacing", 1)
    assert (world.rollout["strategy"], world.rollout["currentRevision"]) == ("Replace", before)
    assert "no capacity for a second Ray cluster now" in world.rollout["reason"]
    assert conditions(begun)["Ready"] == "True/Replacing"
    assert conditions(begun)["Reconciling"] == "True/Updating"
    assert "revision 2 is rolled out by Replace" in message(begun, ConditionType.RECONCILING)
    assert gate(world.step(gateway=view(in_flight=1, held=2))) == ("Replacing", "Closed", None)
    vacate(world)
    assert world.phase == ("Progressing", "Waking", 2)
    waking = world.step(ray_service=world.built(active=NEW), pods=(NEW_HEAD, NEW_POD))
    assert conditions(waking)["Ready"] == "True/Waking", "requests are held, and will be answered"
    assert world.observed.subject is not None
    assert world.observed.subject.spec.runtime.image == "ray:2"
    up = world.step(answers={"tiny": True})
    assert gate(up) == ("Awake", "Open", None)
    assert world.phase == ("Complete", "Awake", 2)
    assert conditions(up)["Stalled"] == "False/Reconciled"


def test_change_with_capacity_is_rolled_out_by_blue_green() -> None:
    world = Rolling(nodes=(node(),)).up()
    world.edit_spec(**IMAGE)
    assert gate(world.step())[1] == "Open"
    assert (world.phase, world.rollout["strategy"]) == (("Progressing", "Awake", 2), "BlueGreen")


def test_an_engine_argument_is_changed_in_place() -> None:
    world = Rolling().up()
    world.edit_spec(ARGUMENT)
    assert gate(world.step())[1] == "Open"
    assert (world.phase[2], world.rollout["strategy"]) == (2, "InPlace")


def test_ready_is_unknown_from_first_status_of_change_in_place() -> None:
    """`kubectl wait --for=condition=Ready` right after an apply waits for the new engine, not the old one."""
    world = Rolling().up()
    world.edit_spec(ARGUMENT)
    begun = world.step()
    assert conditions(begun)["Ready"] == "Unknown/Updating"
    assert conditions(begun)["Reconciling"] == "True/Updating"


def test_service_stays_ready_if_max_replicas_changes() -> None:
    world = Rolling().up()
    world.edit_spec({**CPU_MODEL, "replicas": {"max": 3}})
    assert conditions(world.step())["Ready"] == "True/Serving"


def test_max_replicas_change_in_place_despite_strategy_replace() -> None:
    world = Rolling(**REPLACE).up()
    world.edit_spec({**CPU_MODEL, "replicas": {"max": 3}}, **REPLACE)
    assert gate(world.step())[1] == "Open"
    assert world.rollout["strategy"] == "InPlace"
    world.step(ray_service=world.built())
    assert world.phase[0] == "Complete"


def test_in_place_rollout_is_blocked_if_change_needs_new_pods() -> None:
    world = Rolling(rollout={"strategy": "InPlace"}).up()
    world.edit_spec(**IMAGE, rollout={"strategy": "InPlace"})
    reported = world.step()
    assert conditions(reported)["Stalled"] == "True/RolloutBlocked"
    assert "revision 2 is not started" in message(reported, ConditionType.STALLED)
    assert conditions(reported)["Ready"] == "True/Serving"
    assert gate(reported) == ("Awake", "Open", None)


def test_rollout_is_blocked_if_new_revision_fits_on_no_node() -> None:
    world = Rolling().up()
    world.edit_spec({**CPU_MODEL, "resources": {"cpu": "64"}})
    reported = world.step()
    assert conditions(reported)["Stalled"] == "True/RolloutBlocked"
    assert "64" in message(reported, ConditionType.STALLED)
    assert gate(reported) == ("Awake", "Open", None)


def broken(world: Rolling) -> Decision:
    """The new revision's engine does not start, and Serve has stopped its attempts."""
    failed = ("DEPLOY_FAILED", "Error:\nValueError: the engine says no")
    return world.step(
        after=LATE,
        ray_service=world.built(active=NEW, app="DEPLOY_FAILED", message=SERVE, models={"tiny": failed}),
        pods=(NEW_HEAD, NEW_POD),
        gateway=view(held=5),
    )


def test_failed_replacement_rolls_back_and_keeps_requests_held() -> None:
    world = Rolling().up()
    world.edit_spec(**IMAGE)
    world.step()
    vacate(world)
    world.step(ray_service=world.built(active=NEW), pods=(NEW_HEAD, NEW_POD))
    reported = broken(world)
    assert gate(reported) == ("Replacing", "Closed", "Cluster"), (
        "nobody is refused: something else will be tried"
    )
    assert world.phase == ("RollingBack", "Replacing", 2)
    assert conditions(reported)["Stalled"] == "True/RolledBack"
    assert "the engine says no" in message(reported, ConditionType.STALLED)
    vacate(world)
    assert world.phase == ("RollingBack", "Waking", 1)
    assert world.observed.subject is not None
    back = world.step(ray_service=world.built(), pods=(HEAD, WORKER))
    assert world.observed.subject.spec.runtime.image is None
    assert gate(back) == ("Waking", "Closed", None)
    up = world.step(answers={"tiny": True})
    assert gate(up) == ("Awake", "Open", None)
    assert world.phase == ("RolledBack", "Awake", 1)
    assert conditions(up)["Ready"] == "True/Serving"
    assert conditions(up)["Stalled"] == "True/RolledBack", "what is asked for does not run"
    report = message(up, ConditionType.STALLED)
    assert "revision 2 could not start, and revision 1 runs again" in report
    assert "the engine says no" in report
    calm = world.step(after=7200)
    assert (gate(calm), world.phase) == (("Awake", "Open", None), ("RolledBack", "Awake", 1))
    world.edit_spec(runtime={"image": "ray:3"})
    world.step()
    assert world.phase == ("Progressing", "Replacing", 1), "a correction is taken at once"
    assert "failedRevision" not in world.rollout


def test_revision_rejected_by_api_server_is_rolled_back() -> None:
    world = Rolling().up()
    world.edit_spec(**IMAGE)
    world.step()
    vacate(world)
    world.observed = replace(world.observed, refusal="RayService chat: a webhook says no")
    reported = world.step(after=LATE)
    assert world.phase == ("RollingBack", "Waking", 1)
    assert "a webhook says no" in world.rollout["message"]
    assert gate(reported) == ("Waking", "Closed", None), "who is held stays held"


def test_failed_revision_with_on_failure_pause_fails_gate() -> None:
    paused = {"rollout": {"onFailure": "Pause"}}
    world = Rolling(**paused).up()
    world.edit_spec(**IMAGE, **paused)
    world.step()
    vacate(world)
    world.step(ray_service=world.built(active=NEW), pods=(NEW_HEAD, NEW_POD))
    reported = broken(world)
    assert gate(reported) == ("Failed", "Failed", None)
    assert world.phase == ("Failed", "Failed", 2)
    assert conditions(reported)["Stalled"] == "True/ModelFailed"


def test_rollout_rolls_back_after_its_deadline() -> None:
    quick = {"rollout": {"deadline": "5m"}}
    world = Rolling(**quick).up()
    world.edit_spec(**IMAGE, **quick)
    world.step()
    vacate(world)
    waits = pod_of("w-2", cluster=NEW, ready=False)
    going = world.step(
        ray_service=world.built(active="", pending=NEW, ready=False, app=None), pods=(NEW_HEAD, waits)
    )
    assert world.rollout["deadlineTime"] > world.rollout["startTime"]
    assert going.requeue_after is not None
    assert gate(world.step(after=290)) == ("Waking", "Closed", None)
    reported = world.step(after=15)
    assert world.phase[0] == "RollingBack"
    assert "has not answered within 300 s" in message(reported, ConditionType.STALLED)


def test_sleeping_service_adopts_revision_and_completes_after_wake() -> None:
    world = Rolling(sleep={"afterIdle": "10m"}).up()
    world.step(after=10_000, gateway=IDLE)
    assert world.step().status.sleep_depth is not None
    world.edit_spec(sleep={"afterIdle": "10m"}, **IMAGE)
    reported = world.step(pods=(HEAD,))
    assert world.phase == ("Progressing", "Asleep", 2)
    assert conditions(reported)["Reconciling"] == "False/Reconciled"
    assert "startTime" not in world.rollout
    world.step(ray_service=world.built(), gateway=view(held=1))
    assert world.phase == ("Progressing", "Waking", 2)
    up = world.step(pods=(HEAD, WORKER), answers={"tiny": True})
    assert (gate(up)[0], world.phase[0]) == ("Awake", "Complete")


def test_rollout_switches_to_replace_if_second_cluster_is_unschedulable() -> None:
    world = Rolling(nodes=(node(),)).up()
    world.edit_spec(**IMAGE)
    world.step()
    lost = pod_of(
        "w-2", cluster=NEW, placed=False, ready=False, status=unplaced("0/1 nodes: 1 Insufficient gpu")
    )
    lost["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-21T12:00:00Z"
    world.step(
        ray_service=world.built(pending=NEW, app="DEPLOYING", models={"tiny": "UPDATING"}),
        pods=(HEAD, WORKER, NEW_HEAD, lost),
    )
    reported = world.step(after=LATE)
    assert world.phase == ("Progressing", "Replacing", 1)
    assert "Insufficient gpu" in world.rollout["reason"]
    assert gate(reported) == ("Replacing", "Closed", None)


@pytest.mark.parametrize("how", ["field", "annotation"])
def test_an_earlier_revision_is_run_by_its_number(how: str) -> None:
    world = Rolling().up()
    world.edit_spec(ARGUMENT)
    world.step()
    world.step(ray_service=world.built(generation=2), answers={"tiny": True}, after=LATE)
    assert world.phase[0] == "Complete"
    if how == "field":
        world.edit_spec(ARGUMENT, rollout={"revision": 1})
    else:
        metadata = {
            **world.observed.manifest["metadata"],
            "annotations": {names.ROLLOUT_REVISION_ANNOTATION: "1"},
        }
        world.observed = replace(world.observed, manifest={**world.observed.manifest, "metadata": metadata})
    world.step()
    assert (world.rollout["currentRevisionNumber"], world.rollout["strategy"]) == (1, "InPlace")


def test_missing_revision_number_blocks_rollout() -> None:
    world = Rolling().up()
    world.edit_spec(**IMAGE, rollout={"revision": 7})
    reported = world.step()
    assert conditions(reported)["Stalled"] == "True/RolloutBlocked"
    assert "there is no revision 7; those that are kept are 1, 2" in message(reported, ConditionType.STALLED)
    assert gate(reported) == ("Awake", "Open", None)


@pytest.mark.parametrize("how", ["field", "annotation"])
def test_paused_rollout_does_not_start(how: str) -> None:
    world = Rolling().up()
    if how == "field":
        world.edit_spec(**IMAGE, rollout={"paused": True})
    else:
        world.edit_spec(**IMAGE)
        metadata = {
            **world.observed.manifest["metadata"],
            "annotations": {names.ROLLOUT_PAUSED_ANNOTATION: "true"},
        }
        world.observed = replace(world.observed, manifest={**world.observed.manifest, "metadata": metadata})
    reported = world.step()
    assert conditions(reported)["Reconciling"] == "True/Paused"
    assert (world.phase, gate(reported)) == (("Paused", "Awake", 1), ("Awake", "Open", None))


def test_invalid_spec_keeps_reported_rollout() -> None:
    world = Rolling().up()
    before = world.rollout
    world.observed = replace(world.observed, subject=None, written=None, problems=("spec.models: broken",))
    status = super(Rolling, world).step().status.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert status["rollout"] == before
