"""Changes of a serving ModelServer: its gate, its pods and its conditions."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from daybreak.kinds.modelserver.objects.deployment import configuration
from daybreak.workloads.answer import Answer
from tests.unit.llmservice.decide.scenes.services import node
from tests.unit.modelserver.rolling import ANSWERS, CRASHES, HELD, NO_IMAGE, Rolling, replaced
from tests.unit.modelserver.servers import QUIET

OTHER = {"image": "engine:2"}
SETTLED = 11
REPLACE = {"rollout": {"strategy": "Replace"}}


def beside(world: Rolling, **status: Any) -> None:
    """Add a pod of the new revision to the running pod."""
    world.step()
    world.pods.append(world.pod(ready=not status, **status))


def changed(**rollout: Any) -> Rolling:
    """Return a changed server that has answered before the change."""
    world = Rolling(rollout=rollout).up()
    world.edit(**OTHER)
    world.step()
    return world


def test_rollout_is_complete_after_server_has_answered() -> None:
    world = Rolling().up()
    assert (world.rollout["phase"], world.rollout["currentRevisionNumber"]) == ("Complete", 1)
    assert world.rollout["lastSuccessfulRevision"] == world.rollout["currentRevision"]
    assert world.rollout["currentRevision"].startswith("server.chat-")
    assert "deadlineTime" not in world.rollout
    assert not world.held


def test_old_pods_stay_until_new_pod_has_answered() -> None:
    world = changed()
    assert (world.rollout["strategy"], world.rollout["currentRevisionNumber"]) == ("BlueGreen", 2)
    old = configuration(world.deployment)
    assert world.proven == old
    beside(world)
    assert (world.image, world.held) == ("engine:2", True)
    assert world.proven == old, "no request finds what has not answered"
    assert world.gate == ("Updating", "Open")
    assert world.says("Ready")[:2] == ("True", "Serving")
    status, reason, message = world.says("Reconciling")
    assert (status, reason) == ("True", "Updating")
    assert "revision 2 is rolled out by BlueGreen" in message
    world.step([Answer("tiny", False, "it says 500")], seconds=60)
    world.step()
    assert world.held, "it is ready, and has not answered"
    world.step(ANSWERS)
    assert (world.rollout["phase"], world.proven) == ("Complete", "")
    world.step()
    assert not world.held
    assert world.gate[1] == "Open"
    assert world.says("Stalled")[0] == "False"


@pytest.mark.parametrize(
    ("containers", "words"), [(CRASHES, "no such model"), (NO_IMAGE, "cannot be pulled")]
)
def test_revision_that_cannot_start_is_rolled_back(containers: list[dict[str, Any]], words: str) -> None:
    world = changed()
    first = world.rollout["lastSuccessfulRevision"]
    old = world.pods[0]
    beside(world, containerStatuses=containers)
    world.step(seconds=SETTLED)
    assert world.gate[1] == "Open", "the old pod serves"
    assert world.says("Ready")[:2] == ("True", "Serving")
    assert (world.rollout["phase"], world.rollout["currentRevision"]) == ("RollingBack", first)
    world.pods = [old]
    world.step()
    assert world.image != "engine:2"
    assert world.rollout["phase"] == "RolledBack"
    status, reason, message = world.says("Stalled")
    assert (status, reason) == ("True", "RolledBack")
    assert "revision 2 could not start, and revision 1 runs again" in message
    assert words in message
    assert world.says("Ready")[:2] == ("True", "Serving")
    world.step(seconds=3600)
    assert world.rollout["phase"] == "RolledBack", "it is not tried again"
    world.edit(image="engine:3")
    world.step()
    assert (world.rollout["phase"], world.rollout["currentRevisionNumber"]) == ("Progressing", 3)
    assert world.says("Stalled")[0] == "False"


def test_revision_without_answer_is_rolled_back_after_deadline() -> None:
    world = changed(deadline="10m")
    beside(world)
    world.step(seconds=590)
    assert world.rollout["phase"] == "Progressing"
    decision = world.step()
    assert decision.requeue_after is not None
    assert decision.requeue_after <= timedelta(seconds=10)
    world.step(seconds=20)
    assert world.rollout["phase"] == "RollingBack"
    assert "has not answered within 600 s" in world.rollout["message"]


def test_failed_rollout_with_pause_keeps_revision_and_open_gate() -> None:
    world = changed(onFailure="Pause")
    beside(world, containerStatuses=CRASHES)
    world.step(seconds=SETTLED)
    world.step()
    assert world.rollout["phase"] == "Failed"
    assert (world.image, world.held) == ("engine:2", True)
    assert world.gate[1] == "Open"
    assert world.says("Ready")[:2] == ("True", "Serving")
    assert world.says("Stalled")[:2] == ("True", "ContainerCrashing")


def test_revision_rejected_by_api_server_is_rolled_back() -> None:
    world = changed()
    first = world.rollout["lastSuccessfulRevision"]
    world.step(seconds=SETTLED, refusal="no such class")
    assert (world.rollout["phase"], world.rollout["currentRevision"]) == ("RollingBack", first)
    world.step()
    assert world.rollout["phase"] == "RolledBack"
    assert "the API server refused no such class" in world.says("Stalled")[2]


def test_replace_holds_requests_until_new_pod_answers() -> None:
    world = Rolling(**REPLACE).up()
    world.edit(**OTHER)
    world.step()
    assert world.says("Reconciling")[:2] == ("True", "Updating")
    replaced(world)
    assert world.rollout["currentRevisionNumber"] == 2
    world.step()
    assert world.image == "engine:2"
    assert world.says("Ready")[:2] == ("True", "Waking"), "requests are held, and will be answered"
    world.pods = [world.pod()]
    world.step(ANSWERS)
    assert world.rollout["phase"] == "Complete"
    assert world.gate == ("Awake", "Open")


def test_failed_replacement_is_rolled_back_by_replacement() -> None:
    world = Rolling(**REPLACE).up()
    world.edit(**OTHER)
    world.step()
    replaced(world)
    world.step()
    world.pods = [world.pod(ready=False, containerStatuses=CRASHES)]
    world.step(seconds=SETTLED)
    assert world.gate[1] == "Closed", "held requests are not rejected: the previous revision is tried"
    assert world.rollout["phase"] == "RollingBack"
    world.step()
    assert world.look().asleep
    world.pods = []
    world.step()
    world.step()
    assert world.image != "engine:2"
    world.pods = [world.pod()]
    world.step(ANSWERS)
    assert world.rollout["phase"] == "RolledBack"
    assert world.gate == ("Awake", "Open")


def test_rollout_switches_to_replace_if_new_pod_is_unschedulable() -> None:
    world = changed()
    since = world.now.isoformat()
    no_room = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available",
        "lastTransitionTime": since,
    }
    world.step()
    pending = world.pod(ready=False, conditions=[no_room], phase="Pending")
    pending["spec"].pop("nodeName")
    world.pods.append(pending)
    decision = world.step()
    assert decision.requeue_after is not None
    assert decision.requeue_after <= timedelta(seconds=5)
    assert world.rollout["strategy"] == "BlueGreen"
    world.step(seconds=6)
    assert world.rollout["strategy"] == "Replace"
    assert "one more pod found no capacity: 0/1 nodes" in world.rollout["reason"]
    assert world.gate == ("Replacing", "Closed")
    world.pods.pop()
    replaced(world)


def test_rollout_uses_replace_if_nodes_lack_capacity_for_one_more_pod() -> None:
    world = Rolling().up()
    world.nodes, world.booked = (node(cpu="4"),), {"node-a": {"cpu": Decimal(3)}}
    world.edit(**OTHER)
    world.step()
    assert world.rollout["strategy"] == "Replace"
    assert "no capacity for one more pod now: model tiny needs" in world.rollout["reason"]
    world = Rolling().up()
    world.nodes, world.booked = (node(cpu="64"),), {}
    world.edit(**OTHER)
    world.step()
    assert world.rollout["strategy"] == "BlueGreen"
    assert world.rollout["reason"] == "capacity is free for one more pod"


@pytest.mark.parametrize(
    "spec",
    [
        {"model": {"name": "other", "source": "file:///models/tiny"}},
        {"protocol": "Any"},
        {"engine": "custom", "image": "engine:1"},
        {"engine": "custom", "image": "engine:1", "port": 9000},
    ],
)
def test_change_of_name_protocol_port_or_path_uses_replace(spec: dict[str, Any]) -> None:
    world = Rolling(engine="custom", image="engine:1", readinessPath="/up", rollout={"strategy": "BlueGreen"})
    world.up()
    world.edit(**spec | ({"readinessPath": None} if "engine" in spec else {}))
    world.step()
    assert world.rollout["strategy"] == "Replace"
    assert "at one port and path" in world.rollout["reason"]


def test_rollout_is_blocked_if_new_revision_fits_on_no_node() -> None:
    world = Rolling().up()
    world.edit(**OTHER)
    world.nodes, world.booked = (node(cpu="1"),), {}
    again = world.step().requeue_after
    assert world.rollout["phase"] == "Blocked"
    assert again is not None
    assert again <= timedelta(seconds=15), "nodes may come"
    assert world.says("Stalled")[:2] == ("True", "RolloutBlocked")
    assert world.image != "engine:2"


def test_paused_rollout_starts_after_resume() -> None:
    world = Rolling().up()
    world.pause(True)
    world.edit(**OTHER)
    world.step()
    assert world.rollout["phase"] == "Paused"
    assert world.says("Reconciling")[:2] == ("True", "Paused")
    world.step()
    assert world.image != "engine:2"
    world.pause(False)
    world.step()
    assert (world.rollout["phase"], world.rollout["currentRevisionNumber"]) == ("Progressing", 2)


def test_rollout_runs_existing_revision_and_blocks_missing_revision() -> None:
    world = changed()
    beside(world)
    world.step(ANSWERS)
    world.pods.pop(0)
    world.edit(rollout={"revision": 1})
    world.step()
    beside(world)
    world.step(ANSWERS)
    assert world.image != "engine:2"
    assert world.rollout["currentRevisionNumber"] == 1
    world.edit(rollout={"revision": 9})
    world.step()
    assert world.says("Stalled")[:2] == ("True", "RolloutBlocked")
    assert "there is no revision 9; those that are kept are 1, 2" in world.says("Stalled")[2]


def test_invalid_spec_does_not_start_rollout() -> None:
    world = Rolling().up()
    world.edit(engineArgs={"no_such_thing": 1})
    world.step()
    world.step()
    assert (world.rollout["phase"], world.rollout["currentRevisionNumber"]) == ("Complete", 1)
    assert world.says("Stalled")[:2] == ("True", "InvalidSpec")
    assert world.gate == ("Awake", "Open")
    world.edit(engineArgs=None)
    world.step()
    assert world.rollout["currentRevisionNumber"] == 1, "it is what it was"


def test_change_of_replicas_and_limits_creates_no_revision() -> None:
    world = Rolling().up()
    world.edit(replicas=3, maxOngoingRequests=8, hold={"timeout": "1m"})
    world.step()
    assert (world.rollout["phase"], world.rollout["currentRevisionNumber"]) == ("Complete", 1)


def test_sleeping_server_adopts_revision_and_rolls_back_if_wake_fails() -> None:
    world = Rolling().up()
    world.traffic = QUIET
    world.step(seconds=7200)
    world.step()
    world.pods = []
    world.step()
    assert world.look().asleep
    world.edit(**OTHER)
    world.step()
    assert world.rollout["currentRevisionNumber"] == 2
    assert "deadlineTime" not in world.rollout
    world.traffic = HELD
    world.step()
    world.step()
    assert world.image == "engine:2"
    world.pods = [world.pod(ready=False, containerStatuses=CRASHES)]
    world.step(seconds=SETTLED)
    assert world.rollout["phase"] == "RollingBack", "the requests that woke it wait for the previous revision"
    assert world.gate[1] == "Closed"


def test_first_revision_that_crashes_is_not_rolled_back() -> None:
    world = Rolling()
    world.step()
    world.pods = [world.pod(ready=False, containerStatuses=CRASHES)]
    world.step(seconds=SETTLED)
    assert world.rollout["phase"] == "Progressing"
    assert world.says("Stalled")[:2] == ("True", "ContainerCrashing")
    world.edit(**OTHER)
    world.step()
    world.step()
    assert world.image == "engine:2", "a correction is taken as it comes"


def test_status_is_unchanged_if_server_is_unchanged() -> None:
    world = Rolling().up()
    world.step()
    before = world.status
    world.step(seconds=5)
    assert world.status == before
