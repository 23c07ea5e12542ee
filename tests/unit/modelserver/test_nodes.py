"""Replicas of a ModelServer on several nodes: their objects, and decisions on them."""

from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.kinds.modelserver.functions import view_of
from daybreak.kinds.modelserver.objects import pods
from daybreak.kinds.modelserver.objects.deployment import configuration, deployment, listens, with_pods_of
from daybreak.kinds.modelserver.objects.desired import desired
from daybreak.kinds.modelserver.reconciler import question
from daybreak.scheduling import fit
from daybreak.scheduling.nodes import Node
from daybreak.scheduling.replica_size import accelerators_awake, accelerators_per_pod, pods_per_replica
from daybreak.workloads.answer import Answer
from daybreak.workloads.claims import claims
from tests.unit.modelserver.decision import decide
from tests.unit.modelserver.rolling import ANSWERS, Rolling, replaced
from tests.unit.modelserver.servers import ASKED, NOW, PLATFORM, SGLANG, live, observe, pod, server

SPREAD: dict[str, Any] = {
    "accelerator": {"kind": "gpu"},
    "parallelism": {"tensor": 4, "pipeline": 2},
    "nodes": 2,
}


def worker_of(leader: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a worker of a leader."""
    labels = leader["metadata"]["labels"] | {names.COMPONENT_LABEL: names.SERVER_WORKER_COMPONENT}
    status = leader["status"] | {"podIP": "10.0.0.1"} | more
    return leader | {"metadata": leader["metadata"] | {"labels": labels, "name": "w"}, "status": status}


def templates(**spec: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the templates of leader and workers."""
    group = deployment(server(**SPREAD, **spec), PLATFORM, 1)["spec"]["leaderWorkerTemplate"]
    return group["leaderTemplate"], group["workerTemplate"]


def words(template: dict[str, Any]) -> str:
    """Return the command line of the engine."""
    [container] = template["spec"]["containers"]
    return " ".join([*container.get("command", ()), *container.get("args", ())])


def test_multi_node_server_is_leader_worker_set_with_one_pod_per_node() -> None:
    found = deployment(server(**SPREAD), PLATFORM, 3)
    assert (found["apiVersion"], found["kind"]) == ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
    assert found["metadata"]["name"] == "chat-server"
    assert (found["spec"]["replicas"], found["spec"]["leaderWorkerTemplate"]["size"]) == (3, 2)
    for each in templates():
        [container] = each["spec"]["containers"]
        assert container["resources"]["requests"]["nvidia.com/gpu"] == "4"
        assert each["spec"]["serviceAccountName"] == "server.chat-sa"


def test_vllm_pods_get_group_arguments_and_workers_open_no_port() -> None:
    leader, worker = templates(engineArgs={"max_model_len": 1024})
    shared = "--nnodes $(LWS_GROUP_SIZE) --node-rank $(LWS_WORKER_INDEX) --master-addr $(LWS_LEADER_ADDRESS)"
    for each in (leader, worker):
        assert shared in words(each)
        assert "--tensor-parallel-size 4 --pipeline-parallel-size 2" in words(each)
        assert "--max-model-len 1024" in words(each)
    assert words(leader).startswith("python3 -m vllm.entrypoints.openai.api_server --model /models/tiny ")
    assert words(worker).startswith("python3 -m vllm.entrypoints.cli.main serve /models/tiny --headless ")
    [container] = worker["spec"]["containers"]
    assert not {"readinessProbe", "lifecycle"} & container.keys()
    assert not container["ports"]


def test_worker_has_short_termination_grace_period() -> None:
    leader, worker = templates(gracefulShutdownTimeout="5m")
    assert leader["spec"]["terminationGracePeriodSeconds"] == 315
    assert worker["spec"]["terminationGracePeriodSeconds"] == 10, "no wake before the pod's name is free"


def test_sglang_leader_and_worker_have_same_command() -> None:
    leader, worker = templates(**SGLANG)
    assert words(leader) == words(worker)
    assert "--tp-size 4 --pp-size 2" in words(leader)
    assert "--dist-init-addr $(LWS_LEADER_ADDRESS):20000" in words(leader)


def test_server_on_one_node_is_deployment_without_group_arguments() -> None:
    one = deployment(server(**SPREAD | {"nodes": 1}), PLATFORM, 1)
    assert one["kind"] == "Deployment"
    assert "LWS_" not in words(one["spec"]["template"])


def test_front_service_selects_only_leaders() -> None:
    leader, worker = templates()
    assert leader["metadata"]["labels"][names.MODEL_LABEL] == "tiny"
    assert names.MODEL_LABEL not in worker["metadata"]["labels"], "gateways find pods by it"
    objects = {each["kind"]: each for each in desired(server(**SPREAD), PLATFORM, None, 1)}
    selector = objects["Service"]["spec"]["selector"]
    assert selector.items() <= leader["metadata"]["labels"].items()
    assert not selector.items() <= worker["metadata"]["labels"].items()
    assert "prometheus.io/scrape" not in worker["metadata"].get("annotations", {})


def test_pods_of_multi_node_server_may_reach_each_other() -> None:
    own = {"podSelector": {"matchLabels": {**names.owner_labels("server.chat")}}}
    several, one = (
        {each["kind"]: each["spec"] for each in desired(server(**spec), PLATFORM, 1, 1) if "spec" in each}
        for spec in (SPREAD, SPREAD | {"nodes": 1})
    )
    assert {"from": [own]} in several["NetworkPolicy"]["ingress"]
    assert {"from": [own]} not in one["NetworkPolicy"]["ingress"]


def test_change_of_leader_or_worker_template_changes_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    leader, worker = templates()
    found = configuration(live(server(**SPREAD)))
    assert {each["metadata"]["labels"][names.CONFIGURATION_LABEL] for each in (leader, worker)} == {found}
    assert listens(live(server(**SPREAD))) == (8000, "/health")
    other_leader = {"gracefulShutdownTimeout": "9m"}
    assert templates(**other_leader)[1]["spec"] == worker["spec"]
    assert configuration(live(server(**SPREAD, **other_leader))) != found
    monkeypatch.setattr(pods, "worker_command", lambda *_: {"command": ["other"]})
    assert templates()[0]["spec"] == leader["spec"]
    assert configuration(live(server(**SPREAD))) != found


def test_existing_pod_templates_can_be_kept() -> None:
    before, after = (live(server(**SPREAD, image=image)) for image in ("engine:1", "engine:2"))
    with_pods_of(after, before)
    assert after["spec"] == before["spec"]


def test_accelerators_of_all_pods_of_replicas_are_counted() -> None:
    one = server(**SPREAD, replicas=2)
    assert (pods_per_replica(one.model), accelerators_per_pod(one.model)) == (2, 4)
    assert accelerators_awake(one.workload, one.model) == 16


def test_unschedulable_worker_marks_claim_of_awake_server_as_lost() -> None:
    leader = pod(server(**SPREAD))
    first = observe(
        None, leader, worker_of(leader), traffic=ASKED, spec=SPREAD, answers=(Answer("tiny", True),)
    )
    status = decide(first).status.model_dump(mode="json", by_alias=True, exclude_none=True)
    message = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pending = worker_of(
        leader, phase="Pending", conditions=[message | {"lastTransitionTime": NOW.isoformat()}]
    )
    for worker, lost in ((worker_of(leader), False), (pending | {"spec": {"containers": []}}, True)):
        [claim] = claims(observe(status, leader, worker, traffic=ASKED, spec=SPREAD))
        assert (claim.lost, claim.short, claim.waits) == (lost, lost, False)


def test_only_leader_is_probed() -> None:
    one = server(**SPREAD)
    leader = pod(one)
    found = observe(None, leader, worker_of(leader), traffic=ASKED, spec=SPREAD)
    requested = question(view_of(found), waking=False)
    assert requested is not None
    assert requested.base == "http://10.0.0.7:8000/v1"
    found = observe(None, pod(one, ready=False), worker_of(leader), traffic=ASKED, spec=SPREAD)
    assert not decide(found).ask, "that a worker runs says nothing"
    assert decide(found).status.replicas == 0


def test_crash_of_worker_is_reported_in_stalled() -> None:
    one = server(**SPREAD)
    crashes = {
        "containerStatuses": [
            {
                "name": "engine",
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 1, "message": "no such device"}},
            }
        ]
    }
    found = decide(
        observe(None, pod(one, ready=False), worker_of(pod(one, ready=False), **crashes), spec=SPREAD)
    )
    [stalled] = [each for each in found.status.conditions if each.type == "Stalled"]
    assert "no such device" in stalled.message


@pytest.mark.parametrize("status", [{}, {"observedGeneration": 1}])
def test_group_is_carried_out_with_or_without_observed_generation(
    status: dict[str, Any],
) -> None:
    one = server(**SPREAD)
    leader = pod(one)
    made = live(one) | {"status": status}
    found = observe(None, leader, spec=SPREAD, deployment=made, answers=(Answer("tiny", True),))
    assert view_of(found).carried_out
    assert decide(found).status.phase == "Awake"


def test_missing_leader_worker_set_stalls_multi_node_server() -> None:
    found = decide(observe(None, spec=SPREAD, leader_worker_set_installed=False, deployment=None))
    [stalled] = [each for each in found.status.conditions if each.type == "Stalled"]
    assert not found.apply
    assert (stalled.status, stalled.reason) == ("True", "LeaderWorkerSetNotInstalled")
    assert "install it, or leave nodes at 1" in stalled.message
    on_one = observe(None, leader_worker_set_installed=False)
    assert decide(on_one).apply, "a server on one node does not need it"


def rolling() -> Rolling:
    """Return a server on a single node that has answered."""
    return Rolling(**SPREAD | {"nodes": 1}, image="engine:1").up()


def test_change_to_several_nodes_waits_for_leader_worker_set() -> None:
    world = rolling()
    before = world.rollout
    world.edit(nodes=2)
    decision = world.step(leader_worker_set_installed=False)
    assert not decision.apply
    assert world.says("Stalled")[1] == "LeaderWorkerSetNotInstalled"
    assert world.rollout["currentRevision"] == before["currentRevision"]
    world.step()
    assert world.says("Stalled")[1] != "LeaderWorkerSetNotInstalled"
    assert world.rollout["strategy"] == "Replace", "the rollout continues automatically"


@pytest.mark.parametrize(
    "change", [{"nodes": 1}, {"image": "engine:2"}, {"rollout": {"strategy": "BlueGreen"}}]
)
def test_change_of_multi_node_server_uses_strategy_replace(change: dict[str, Any]) -> None:
    world = Rolling(**SPREAD, image="engine:1").up()
    world.edit(**change, env=[{"name": "A", "value": "b"}])
    world.step()
    assert world.rollout["strategy"] == "Replace"
    replaced(world)
    world.step()
    world.pods = [world.pod()]
    world.step(ANSWERS)
    assert world.rollout["phase"] == "Complete"
    assert world.gate == ("Awake", "Open")
    kind = "Deployment" if change == {"nodes": 1} else "LeaderWorkerSet"
    assert world.deployment is not None
    assert world.deployment["kind"] == kind


def node(name: str, gpus: int) -> Node:
    """Return a node with this number of GPUs."""
    return Node(name, {}, (), {"cpu": "64", "memory": "900Gi", "nvidia.com/gpu": str(gpus)})


def test_stalled_suggests_nodes_for_replica_that_fits_on_no_node() -> None:
    world = Rolling(accelerator={"kind": "gpu"}).up()
    world.nodes = (node("one", 4), node("two", 4))
    world.edit(parallelism={"tensor": 4, "pipeline": 2})
    world.step()
    assert "set nodes: 2" in world.says("Stalled")[2]
    world.edit(nodes=2)
    assert not fit.fit(world.server.workload, world.nodes)
    world.step()
    assert world.says("Stalled")[1] != "RolloutBlocked"
    world.edit(parallelism={"tensor": 4, "pipeline": 3}, nodes=3)
    world.step()
    assert "a replica needs 3 pods" in (reported := world.says("Stalled")[2])
    assert "lower nodes, or add nodes" in reported
