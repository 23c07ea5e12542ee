"""A second Ray cluster that KubeRay has switched to: requests stay at the first until it has answered."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from daybreak.api.common.conditions import ConditionType
from daybreak.kinds.llmservice.decide.cluster_bounds import cluster_bounds
from daybreak.kinds.llmservice.decide.finished_clusters import finished_clusters
from tests.unit.llmservice.decide.scenes.rolling import IMAGE, Rolling
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    OTHER_MODEL,
    Manifest,
    conditions,
    message,
    node,
    pod,
    unplaced,
)
from tests.unit.llmservice.decide.scenes.sleeping import gate, view
from tests.unit.llmservice.decision import Decision

FIRST, SECOND, THIRD = "chat-aaaaa", "chat-bbbbb", "chat-ccccc"
RENAMED: Manifest = {**CPU_MODEL, "name": "small"}
ROOM = (node(cpu="64"),)
NONSENSE = "http://10.0.0.2:8000/v1/completions answered 200 without a completion: {}"


def clusters(*names: str, **more: Any) -> tuple[Manifest, ...]:
    """Return Ray clusters, the oldest first."""
    found = []
    for name in names:
        made = f"2026-11-21T1{(FIRST, SECOND, THIRD).index(name)}:00:00Z"
        groups = [{"groupName": model} for model in ("tiny", "other", "small")]
        metadata = {"name": name, "creationTimestamp": made, **more}
        found.append({"metadata": metadata, "spec": {"workerGroupSpecs": groups}})
    return tuple(found)


def pods(cluster: str, models: Sequence[str]) -> tuple[Manifest, ...]:
    """Return the head pod of the second cluster, and a worker pod of each model."""
    workers = (pod(f"{cluster}-{model}", cluster=cluster, model=model) for model in models)
    return (pod(f"{cluster}-head", cluster=cluster, model=None), *workers)


def backends(decision: Decision) -> list[str | None]:
    """Return the Ray clusters that gateways send requests to."""
    assert decision.status.gate is not None
    return [backend.cluster for backend in decision.status.gate.backends]


def gates(decision: Decision) -> dict[str, str]:
    """Return the state of each gate."""
    assert decision.status.gate is not None
    return {each.name: str(each.state) for each in decision.status.gate.models}


def switched(*models: Manifest, to: Sequence[Manifest] = (), **spec: Any) -> tuple[Rolling, Decision]:
    """Return a service with a change for which KubeRay has just switched to a second cluster."""
    models = models or (CPU_MODEL,)
    own = [model["name"] for model in models]
    world = Rolling(*models, nodes=ROOM, **spec)
    world.step()
    up = world.step(
        ray_service=world.built(),
        ray_clusters=clusters(FIRST),
        pods=pods(FIRST, own),
        answers=dict.fromkeys(own, True),
    )
    assert backends(up) == [FIRST]
    world.edit_spec(*(to or models), **{**IMAGE, **spec})
    world.step()
    assert world.rollout["strategy"] == "BlueGreen"
    coming = [model["name"] for model in to or models]
    world.step(
        ray_service=world.built(pending=SECOND, app="DEPLOYING", models=dict.fromkeys(coming, "UPDATING")),
        ray_clusters=clusters(FIRST, SECOND),
        pods=(*pods(FIRST, own), *pods(SECOND, coming)),
    )
    return world, world.step(after=60, ray_service=world.built(active=SECOND))


def test_requests_stay_at_first_cluster_until_second_has_answered() -> None:
    world, requested = switched()
    assert requested.ask == ("tiny",)
    assert backends(requested) == [FIRST]
    assert gate(requested) == ("Updating", "Open", None)
    assert conditions(requested)["Ready"] == "True/Serving"
    assert conditions(requested)["Reconciling"] == "True/Updating"
    assert world.phase[0] == "Progressing"
    assert finished_clusters(replace(world.observed, gateway=replace(view(), clusters=frozenset()))) == ()
    reported = world.step(answers={"tiny": NONSENSE})
    assert backends(reported) == [FIRST]
    assert gate(reported) == ("Updating", "Open", None)
    assert f"requests go to {FIRST} until every model of {SECOND} has answered" in message(
        reported, ConditionType.RECONCILING
    )
    assert "without a completion" in message(reported, ConditionType.RECONCILING)
    up = world.step(answers={"tiny": True})
    assert backends(up) == [SECOND]
    assert gate(up) == ("Awake", "Open", None)
    assert world.phase == ("Complete", "Awake", 2)
    assert backends(world.step()) == [SECOND], "there is no way back without a change"


def test_requests_move_after_every_model_of_second_cluster_has_answered() -> None:
    world, _ = switched(CPU_MODEL, OTHER_MODEL)
    one = world.step(answers={"tiny": True, "other": NONSENSE})
    assert (backends(one), one.ask) == ([FIRST], ("other",))
    assert world.phase[0] == "Progressing"
    lost = world.built(active=SECOND, models={"tiny": "UNHEALTHY", "other": "HEALTHY"}, app="UNHEALTHY",
                       message="The deployments ['LLMServer:tiny'] are UNHEALTHY.")  # fmt: skip
    world.step(ray_service=lost, after=1)
    assert gates(world.step(after=1)) == {"tiny": "Open", "other": "Open"}, "the first one answers"
    back = world.step(ray_service=world.built(active=SECOND), answers={"tiny": True, "other": True})
    assert backends(back) == [SECOND]


def test_renamed_model_is_open_under_old_name_until_new_name_answers() -> None:
    world, requested = switched(CPU_MODEL, to=(RENAMED,))
    assert gates(requested) == {"small": "Closed", "tiny": "Open"}
    assert backends(requested) == [FIRST]
    reported = world.step(answers={"small": NONSENSE})
    assert (backends(reported), gates(reported)) == ([FIRST], {"small": "Closed", "tiny": "Open"})
    up = world.step(answers={"small": True})
    assert (backends(up), gates(up)) == ([SECOND], {"small": "Open"})


def test_new_model_stays_closed_until_other_models_have_answered() -> None:
    world, requested = switched(CPU_MODEL, to=(CPU_MODEL, OTHER_MODEL))
    assert gates(requested) == {"tiny": "Open", "other": "Closed"}
    one = world.step(answers={"other": True, "tiny": NONSENSE})
    assert (backends(one), gates(one)) == ([FIRST], {"tiny": "Open", "other": "Closed"})
    up = world.step(answers={"tiny": True})
    assert (backends(up), gates(up)) == ([SECOND], {"tiny": "Open", "other": "Open"})


def test_requests_go_to_second_cluster_if_first_is_being_deleted() -> None:
    world, _ = switched()
    leaving = clusters(FIRST, deletionTimestamp="2026-11-21T13:00:00Z")
    assert backends(world.step(ray_clusters=(*leaving, *clusters(SECOND)))) == [SECOND]


def test_backend_moves_to_second_cluster_when_service_falls_asleep() -> None:
    world, _ = switched(sleep={"afterIdle": "10m"})
    world.edit_spec(CPU_MODEL, **IMAGE, sleep={"afterIdle": "10m"}, state="Asleep")
    assert gate(world.step()) == ("Draining", "Failed", None)
    assert backends(world.step(gateway=view())) == [FIRST]
    assert backends(world.step()) == [SECOND]


def going_back(world: Rolling) -> None:
    """The operator abandons the second cluster while the first one serves."""
    failed = {"tiny": ("DEPLOY_FAILED", "Error: the engine says no")}
    lost = world.built(active=SECOND, app="DEPLOY_FAILED", models=failed,
                       message="Failed to update the deployments ['LLMServer:tiny'].")  # fmt: skip
    world.step(after=30, ray_service=lost)
    assert world.phase[0] == "RollingBack"


def test_rollback_uses_third_cluster_and_capacity_of_second() -> None:
    world, _ = switched()
    going_back(world)
    assert world.rollout["strategy"] == "BlueGreen"
    assert world.phase[2] == 1
    both = {"pods": (*pods(FIRST, ["tiny"]), *pods(SECOND, ["tiny"]))}
    coming = world.step(
        ray_service=world.built(active=SECOND, pending=THIRD, app="DEPLOYING", models={"tiny": "UPDATING"}),
        ray_clusters=clusters(FIRST, SECOND, THIRD),
        **both,
    )
    assert gate(coming)[1] == "Open"
    assert backends(coming) == [FIRST]
    bounds = cluster_bounds(world.observed)
    assert bounds[SECOND]["tiny"] == (0, 0), "its room is for the third"
    assert bounds[THIRD]["tiny"] == (1, 1)
    assert FIRST not in bounds
    there = world.step(
        ray_service=world.built(active=THIRD), pods=(*pods(FIRST, ["tiny"]), *pods(THIRD, ["tiny"]))
    )
    assert (backends(there), there.ask) == ([FIRST], ("tiny",))
    up = world.step(answers={"tiny": True})
    assert backends(up) == [THIRD]
    assert world.phase == ("RolledBack", "Awake", 1)


def without_room(cluster: str) -> Manifest:
    """Return a worker that the scheduler cannot place."""
    lost = pod(f"{cluster}-lost", cluster=cluster, placed=False, ready=False,
               status=unplaced("0/1 nodes: 1 Insufficient gpu"))  # fmt: skip
    lost["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-21T12:00:00Z"
    return lost


def test_rollback_becomes_replace_if_no_capacity_after_second_is_gone() -> None:
    world, _ = switched()
    going_back(world)
    third = world.built(active=SECOND, pending=THIRD, app="DEPLOYING", models={"tiny": "UPDATING"})
    alone = (*pods(FIRST, ["tiny"]), pod("head-3", cluster=THIRD, model=None), without_room(THIRD))
    there = {"ray_service": third, "ray_clusters": clusters(FIRST, SECOND, THIRD)}
    world.step(after=30, pods=(*alone, *pods(SECOND, ["tiny"])), **there)
    assert world.rollout["strategy"] == "BlueGreen"
    reported = world.step(after=30, pods=alone, **there)
    assert world.phase[0] == "RollingBack"
    assert world.rollout["strategy"] == "Replace", "somebody else has taken the room"
    assert gate(reported)[1] == "Closed"
    world.step()
    drained = world.step(gateway=view(held=2))
    assert gate(drained) == ("Replacing", "Closed", "Cluster")
    gone = world.step(ray_service=None, pods=(), ray_clusters=())
    assert gate(gone) == ("Waking", "Closed", None)
    assert world.phase[2] == 1
    up = world.step(ray_service=world.built(), pods=pods(FIRST, ["tiny"]), answers={"tiny": True})
    assert gate(up)[1] == "Open"
    assert world.phase == ("RolledBack", "Awake", 1)


def test_unschedulable_abandoned_cluster_keeps_rollback_strategy() -> None:
    slow = {"rollout": {"strategy": "BlueGreen", "deadline": "60s"}}
    world = Rolling(nodes=ROOM, **slow)
    world.step()
    world.step(ray_service=world.built(), ray_clusters=clusters(FIRST), pods=pods(FIRST, ["tiny"]),
               answers={"tiny": True})  # fmt: skip
    world.edit_spec(**IMAGE, **slow)
    world.step()
    coming = {"pending": SECOND, "app": "DEPLOYING", "models": {"tiny": "UPDATING"}}
    made = world.built(**coming)
    second = {**clusters(SECOND)[0]}
    second["metadata"] = {**second["metadata"], "annotations": made["metadata"]["annotations"]}
    there = {
        "ray_clusters": (*clusters(FIRST), second),
        "pods": (*pods(FIRST, ["tiny"]), without_room(SECOND)),
    }
    world.step(ray_service=made, **there)
    world.step(after=70)
    assert (world.phase[0], world.rollout["strategy"]) == ("RollingBack", "BlueGreen")
    world.step(after=20)
    assert world.rollout["strategy"] == "BlueGreen", "the RayService is not changed back yet"
    back = world.step(after=20, ray_service=world.built(**coming))
    assert world.rollout["strategy"] == "BlueGreen", "it is not what the RayService asks for now"
    assert gate(back)[1] == "Open"
    world.step(ray_service=world.built())
    assert world.phase == ("RolledBack", "Awake", 1)


def test_further_edit_uses_capacity_of_second_cluster() -> None:
    world, _ = switched()
    world.observed = replace(world.observed, nodes=(node(cpu="10"),))
    world.edit_spec(CPU_MODEL, runtime={"image": "ray:3"})
    edited = world.step()
    assert (world.rollout["strategy"], world.phase[2]) == ("BlueGreen", 3)
    assert gate(edited)[1] == "Open"
    assert backends(edited) == [FIRST]


def test_further_edit_without_capacity_for_third_cluster_uses_replace() -> None:
    world, _ = switched()
    world.observed = replace(world.observed, nodes=(node(cpu="10"),))
    world.edit_spec({**CPU_MODEL, "resources": {"cpu": "8"}}, runtime={"image": "ray:3"})
    edited = world.step()
    assert world.rollout["strategy"] == "Replace"
    assert "no capacity for a second Ray cluster now" in world.rollout["reason"]
    assert gate(edited)[1] == "Closed"


def test_rollout_rolls_back_after_a_minute_of_errors() -> None:
    world, _ = switched()
    reported = world.step(answers={"tiny": NONSENSE})
    assert reported.requeue_after is not None
    since = world.observed.status["models"][0]["errorsStartTime"]
    world.step(after=30, answers={"tiny": NONSENSE})
    assert world.observed.status["models"][0]["errorsStartTime"] == since
    assert world.phase == ("Progressing", "Updating", 2)
    going_on = world.step(after=28)
    assert world.phase == ("Progressing", "Updating", 2)
    assert going_on.requeue_after is not None
    back = world.step(after=3)
    assert world.phase == ("RollingBack", "Updating", 1)
    assert "has answered with nothing but errors for 60 s: model tiny" in world.rollout["message"]
    assert "without a completion" in world.rollout["message"]
    assert (gate(back)[1], backends(back)) == ("Open", [FIRST])


def test_timeout_and_answer_reset_start_of_errors() -> None:
    world, _ = switched()
    world.step(answers={"tiny": NONSENSE})
    world.step(after=50, answers={"tiny": "it does not answer: timeout"})
    assert "errorsStartTime" not in world.observed.status["models"][0]
    world.step(after=20, answers={"tiny": NONSENSE})
    world.step(after=50)
    assert world.phase[0] == "Progressing"
    world.step(answers={"tiny": True})
    assert "errorsStartTime" not in world.observed.status["models"][0]
    assert world.phase[0] == "Complete"


def test_failed_rollout_with_pause_keeps_requests_at_first_cluster() -> None:
    world, _ = switched(rollout={"onFailure": "Pause"})
    world.step(answers={"tiny": NONSENSE})
    failed = world.step(after=61)
    assert world.phase[0] == "Failed"
    assert conditions(failed)["Stalled"] == "True/RolloutFailed"
    assert (gate(failed)[1], backends(failed)) == ("Open", [FIRST])
    up = world.step(answers={"tiny": True})
    assert (world.phase[0], backends(up)) == ("Complete", [SECOND])


def test_erring_replacement_rolls_back_while_requests_are_held() -> None:
    world = Rolling(rollout={"strategy": "Replace"}).up()
    world.edit_spec(**IMAGE, rollout={"strategy": "Replace"})
    world.step()
    world.step(gateway=view(held=3))
    world.step(ray_service=None, pods=())
    world.step(ray_service=world.built(active=SECOND), pods=pods(SECOND, ["tiny"]))
    reported = world.step(answers={"tiny": NONSENSE})
    assert conditions(reported)["Ready"] == "True/Waking", "something else will be tried"
    assert "without a completion" in world.observed.status["models"][0]["message"]
    back = world.step(after=61)
    assert gate(back) == ("Replacing", "Closed", "Cluster")
    assert world.phase[0] == "RollingBack"
    assert "nothing but errors" in world.rollout["message"]
