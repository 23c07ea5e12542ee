"""Disruptions that a drain of nodes may cause, by real budgets and real evictions; pods are simulated."""

from typing import Any

from daybreak.api.common import names
from tests.api.admin import Admin, Refused, eventually
from tests.api.objects.llmservice import NAMES, model, tiny
from tests.api.operator_process import OperatorProcess
from tests.api.playing.kuberay import PlayedKubeRay

REPLICAS, STAGES = 2, 2


def evict(admin: Admin, pod: str) -> bool:
    """Ask for the eviction of a pod, as `kubectl drain` does. Returns whether it is granted."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    try:
        admin.request("POST", f"{admin.path('Pod', pod)}/eviction", eviction)
    except Refused as error:
        if error.status == 429:
            return False
        raise
    return True


def becomes_ready(admin: Admin, cluster: str, *, first_stage: bool) -> bool:
    """Return True if a worker pod becomes ready.

    KubeRay has it probe a Serve proxy, unless it has its own probe. There is a proxy only on a pod with a
    replica's actor, which is so in the first stage.
    """
    [group] = admin.get("RayCluster", cluster)["spec"]["workerGroupSpecs"]
    container = group["template"]["spec"]["containers"][0]
    return first_stage or "readinessProbe" in container


def test_second_pipeline_pod_is_not_evicted_until_first_is_replaced(
    admin: Admin, operator: OperatorProcess
) -> None:
    admin.create(
        tiny(
            models=[
                model(
                    accelerator={"kind": "gpu"},
                    parallelism={"pipeline": STAGES},
                    replicas={"min": REPLICAS},
                )
            ]
        )
    )
    eventually("a RayService", lambda: admin.get("RayService", "tiny"))
    kuberay = PlayedKubeRay(admin)
    cluster, group = kuberay.cluster("tiny"), names.worker_group("tiny")
    kuberay.head("tiny", cluster)
    pods = {
        (replica, stage): kuberay.worker(
            "tiny", cluster, group, becomes_ready(admin, cluster, first_stage=stage == 0)
        )
        for replica in range(REPLICAS)
        for stage in range(STAGES)
    }

    def budget() -> Any:
        return admin.get("PodDisruptionBudget", NAMES["PodDisruptionBudget"]).get("status") or {}

    ready = sum(
        any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"]["conditions"])
        for pod in admin.list("Pod")
    )
    eventually("every pod counted", lambda: budget().get("currentHealthy") == ready)
    eventually("one may go", lambda: budget().get("disruptionsAllowed", 0) > 0)
    assert evict(admin, pods[0, 1])
    eventually("it is counted", lambda: budget().get("disruptionsAllowed") == 0)
    assert not evict(admin, pods[1, 1]), "both replicas would be down"
    assert not evict(admin, pods[1, 0])

    kuberay.worker("tiny", cluster, group, becomes_ready(admin, cluster, first_stage=False))
    eventually("another is there", lambda: budget().get("disruptionsAllowed", 0) > 0)
    assert evict(admin, pods[1, 1]), "nothing is held up for good"
