"""Sleep and wake on a real API server; KubeRay, models and gateways are played."""

from typing import Any

import pytest

from daybreak.api.common.names import FIT_CHECK_ANNOTATION, RAY_NODE_TYPE_LABEL, worker_group
from tests.api.admin import eventually
from tests.api.objects.llmservice import condition, model
from tests.api.objects.sleeper import NAME, Sleeper, group_bounds, min_replicas
from tests.api.playing.words import LONG_IDLE

pytestmark = pytest.mark.usefixtures("gated")
SOON = {"afterIdle": "1s"}
"""Sleep settings of a model that sleeps as soon as it receives no requests."""


def test_held_request_wakes_service_that_sleeps_without_workers(sleeper: Sleeper) -> None:
    open_epoch = sleeper.awake(sleep=SOON)
    sleeper.scaled((1, 1))
    asleep_epoch = sleeper.falls_asleep()
    assert asleep_epoch > open_epoch
    service = sleeper.admin.get("LLMService", NAME)
    assert condition(service, "Ready")["status"] == "True"
    assert condition(service, "Ready")["reason"] == "Asleep"
    assert condition(service, "Reconciling")["status"] == "False"
    eventually("the model asleep", lambda: sleeper.status()["models"][0]["state"] == "Asleep")

    sleeper.silent()
    sleeper.traffic(held=1)
    assert sleeper.reaches("Waking", "Closed", None) == asleep_epoch, "it was closed all the time"
    sleeper.scaled((1, 1))
    assert condition(sleeper.admin.get("LLMService", NAME), "Ready")["status"] == "True"
    sleeper.kuberay.status(NAME, sleeper.cluster)
    assert sleeper.gate() == "Closed", "opens only when the model answers"
    sleeper.answers()
    assert sleeper.opened() > asleep_epoch
    wake = sleeper.wake()
    assert wake["depth"] == "Workers"
    assert wake["recent"] == [wake["seconds"]]


def test_cluster_sleep_deletes_and_wake_recreates_ray_service(sleeper: Sleeper) -> None:
    epoch = sleeper.awake(sleep=SOON | {"depth": "Cluster"})
    uid = sleeper.admin.get("RayService", NAME)["metadata"]["uid"]
    assert sleeper.falls_asleep("Cluster") > epoch
    _ray_pods_go(sleeper)

    sleeper.silent()
    sleeper.traffic(held=3)
    sleeper.reaches("Waking", "Closed", None)
    made = eventually("a RayService", lambda: sleeper.admin.get("RayService", NAME))
    assert made["metadata"]["uid"] != uid
    assert min_replicas(made) == 1
    sleeper.starts("fghij")
    assert sleeper.gate() == "Closed"
    sleeper.answers()
    sleeper.opened()
    status = sleeper.status()
    assert status["gate"]["backends"] == [{"cluster": sleeper.cluster, "weight": 100}]
    assert sleeper.wake()["depth"] == "Cluster"


@pytest.mark.parametrize("depth", ["Workers", "Cluster"])
def test_service_wakes_although_no_node_fits(depth: str, sleeper: Sleeper) -> None:
    """There is no node here at all: as if they had been removed while no service needed them."""
    sleeper.awake(sleep=SOON | {"depth": depth})
    sleeper.falls_asleep(depth)
    if depth == "Cluster":
        _ray_pods_go(sleeper)
    for worker in sleeper.admin.list("Pod", labelSelector=f"{RAY_NODE_TYPE_LABEL}=worker"):
        sleeper.admin.delete("Pod", worker["metadata"]["name"])
    sleeper.admin.merge("LLMService", NAME, {"metadata": {"annotations": {FIT_CHECK_ANNOTATION: None}}})
    eventually("it is told", lambda: _schedulable(sleeper) == ("False", "NoNodeFits"))

    sleeper.silent()
    sleeper.traffic(held=1)
    sleeper.reaches("Waking", "Closed", None)
    if depth == "Cluster":
        sleeper.starts("fghij")
    sleeper.scaled((1, 1))
    _looked_at_again(sleeper)
    assert sleeper.gate() == "Closed", "nobody is refused"
    service = sleeper.admin.get("LLMService", NAME)
    assert condition(service, "Ready")["reason"] == "Waking"
    assert condition(service, "Stalled")["status"] == "False"
    assert _schedulable(sleeper) == ("False", "NoNodeFits")
    if depth == "Workers":
        sleeper.kuberay.worker(NAME, sleeper.cluster, worker_group(NAME))
    sleeper.kuberay.status(NAME, sleeper.cluster)
    sleeper.answers()
    sleeper.opened()


def test_ray_service_is_deleted_after_longer_idle_time(sleeper: Sleeper) -> None:
    sleeper.awake(sleep=SOON | {"clusterAfterIdle": "2h"})
    epoch = sleeper.falls_asleep()
    sleeper.traffic(idle=2 * LONG_IDLE)
    assert sleeper.reaches("Asleep", "Closed", "Cluster") == epoch, "the gate has not changed"
    eventually("no RayService", lambda: sleeper.admin.get("RayService", NAME) is None)


def test_held_request_during_draining_reopens_gate(sleeper: Sleeper) -> None:
    epoch = sleeper.awake(sleep=SOON)
    before = _generations(sleeper)
    sleeper.traffic(idle=LONG_IDLE, acknowledged=epoch)
    closed = sleeper.reaches("Draining", "Closed", None)
    # The gateways have applied it, and one of them holds a request that arrived in the meantime.
    sleeper.traffic(held=1, acknowledged=closed)
    assert sleeper.opened() > closed
    assert _generations(sleeper) == before, "nothing was scaled down"
    assert not sleeper.wake(), "it never slept"


def test_service_drains_until_stream_ends(sleeper: Sleeper) -> None:
    epoch = sleeper.awake(sleep=SOON)
    sleeper.traffic(idle=LONG_IDLE, acknowledged=epoch)
    closed = sleeper.reaches("Draining", "Closed", None)
    sleeper.traffic(in_flight=1, acknowledged=closed)
    _looked_at_again(sleeper)
    assert sleeper.status()["phase"] == "Draining"
    sleeper.traffic(idle=0, acknowledged=closed)
    sleeper.reaches("Asleep", "Closed", "Workers")


def test_service_does_not_sleep_while_traffic_is_unknown(sleeper: Sleeper) -> None:
    sleeper.awake(sleep=SOON)
    sleeper.traffic(known=False, idle=LONG_IDLE)
    _looked_at_again(sleeper)
    assert sleeper.status()["phase"] == "Awake"

    # Nor half way: a gateway that is lost while the service drains may have admitted a request.
    sleeper.traffic(idle=LONG_IDLE, acknowledged=1)
    sleeper.reaches("Draining", "Closed", None)
    sleeper.traffic(known=False, idle=LONG_IDLE)
    _looked_at_again(sleeper)
    assert sleeper.status()["phase"] == "Draining"


def test_service_is_not_ready_while_no_gateway_reports(sleeper: Sleeper) -> None:
    sleeper.awake(sleep=SOON)
    sleeper.traffic(known=False, acknowledged=-1)
    service = eventually("said", lambda: _with_reason(sleeper, "GatewayNotReporting"))
    assert condition(service, "Ready")["status"] == "False"
    sleeper.traffic()
    eventually("ready again", lambda: _with_reason(sleeper, "Serving"))


def test_state_in_spec_takes_precedence_over_traffic(sleeper: Sleeper) -> None:
    sleeper.awake()
    sleeper.admin.merge("LLMService", NAME, {"spec": {"state": "Asleep"}})
    sleeper.reaches("Asleep", "Failed", "Workers")
    sleeper.scaled((0, 0))
    service = sleeper.admin.get("LLMService", NAME)
    assert "put to sleep" in service["status"]["gate"]["models"][0]["reason"]
    assert condition(service, "Ready")["status"] == "False"
    sleeper.traffic(held=5)
    _looked_at_again(sleeper)
    assert sleeper.status()["sleepDepth"] == "Workers", "no request wakes it"

    # A model that answers at once would be awake before anybody has seen it waking.
    sleeper.silent()
    sleeper.admin.merge("LLMService", NAME, {"spec": {"state": "Awake"}})
    sleeper.reaches("Waking", "Closed", None)
    sleeper.scaled((1, 1))
    sleeper.kuberay.status(NAME, sleeper.cluster)
    sleeper.answers()
    sleeper.opened()
    sleeper.admin.merge("LLMService", NAME, {"spec": {"sleep": SOON}})
    sleeper.kuberay.status(NAME, sleeper.cluster)
    sleeper.traffic(idle=LONG_IDLE)
    _looked_at_again(sleeper)
    assert sleeper.status()["phase"] == "Awake", "kept awake, however long nobody comes"


def test_state_annotation_takes_precedence_over_spec(sleeper: Sleeper) -> None:
    sleeper.awake(state="Awake")
    _annotate(sleeper, "Asleep")
    sleeper.reaches("Asleep", "Failed", "Workers")
    sleeper.silent()
    _annotate(sleeper, None)
    sleeper.reaches("Waking", "Closed", None)
    sleeper.scaled((1, 1))
    sleeper.kuberay.status(NAME, sleeper.cluster)
    sleeper.answers()
    sleeper.opened()


def test_service_created_asleep_gets_no_ray_service(sleeper: Sleeper) -> None:
    sleeper.create(state="Asleep", sleep=SOON | {"depth": "Cluster"})
    sleeper.reaches("Asleep", "Failed", "Cluster")
    eventually("no RayService", lambda: sleeper.admin.get("RayService", NAME) is None)
    sleeper.admin.merge("LLMService", NAME, {"spec": {"state": None}})
    # It slept by `sleep.force`, which is now unset: the next request wakes it.
    sleeper.reaches("Asleep", "Closed", "Cluster")
    sleeper.traffic(held=1)
    sleeper.starts()
    sleeper.answers()
    sleeper.opened()


def test_model_that_cannot_start_sets_failed_gate_with_reason(sleeper: Sleeper) -> None:
    sleeper.create(sleep=SOON)
    eventually("a RayService", lambda: sleeper.admin.get("RayService", NAME))
    sleeper.cluster = sleeper.kuberay.cluster(NAME)
    sleeper.kuberay.head(NAME, sleeper.cluster)
    sleeper.kuberay.status(NAME, sleeper.cluster, "DEPLOY_FAILED", "no such model: /models/tiny")
    epoch = sleeper.reaches("Failed", "Failed", None)
    assert "no such model" in sleeper.gates()[0]["reason"]
    sleeper.traffic(held=1, idle=LONG_IDLE)
    _looked_at_again(sleeper)
    assert sleeper.gate() == "Failed", "who waits is told, and what is broken is not given back"

    sleeper.traffic()
    sleeper.answers()
    sleeper.kuberay.worker(NAME, sleeper.cluster, worker_group(NAME))
    sleeper.kuberay.status(NAME, sleeper.cluster)
    assert sleeper.opened() > epoch


def test_deletion_of_sleeping_service_removes_its_objects(sleeper: Sleeper) -> None:
    sleeper.awake(sleep=SOON | {"depth": "Cluster"})
    sleeper.falls_asleep("Cluster")
    sleeper.admin.delete("LLMService", NAME)
    eventually("its Service gone", lambda: sleeper.admin.get("Service", NAME) is None)
    eventually("its account gone", lambda: sleeper.admin.get("ServiceAccount", f"{NAME}-sa") is None)


def _looked_at_again(sleeper: Sleeper) -> None:
    """Wait until the operator has taken in what gateways say now, and has decided on it."""
    # A change of the spec that changes nothing: its status comes after the look.
    before = sleeper.admin.get("LLMService", NAME)["metadata"]["generation"]
    patch = {"spec": {"hold": {"maxRequests": 1000 + before}}}
    generation = sleeper.admin.merge("LLMService", NAME, patch)["metadata"]["generation"]
    assert generation > before
    eventually("looked at", lambda: sleeper.status().get("observedGeneration") == generation)


def test_renamed_model_keeps_old_gate_until_new_cluster_answers(sleeper: Sleeper) -> None:
    sleeper.awake()
    assert _gates(sleeper) == ["tiny Open"]
    patch = {"spec": {"models": [model(name="small")]}}
    sleeper.admin.merge("LLMService", NAME, patch)
    eventually("a gate for each", lambda: _gates(sleeper) == ["small Closed", "tiny Open"])
    sleeper.silent()
    assert _backends(sleeper) == [sleeper.cluster]
    eventually("it is built", lambda: _worker_groups(sleeper) == [worker_group("small")])

    first, sleeper.cluster = sleeper.cluster, sleeper.kuberay.cluster(NAME, "bcdef")
    sleeper.kuberay.head(NAME, sleeper.cluster)
    sleeper.kuberay.worker(NAME, sleeper.cluster, worker_group("small"))
    assert _gates(sleeper) == ["small Closed", "tiny Open"]
    sleeper.kuberay.status(NAME, sleeper.cluster)
    _looked_at_again(sleeper)
    assert (_backends(sleeper), _gates(sleeper)) == ([first], ["small Closed", "tiny Open"])
    sleeper.answers()
    eventually("the new one", lambda: _backends(sleeper) == [sleeper.cluster])
    assert _gates(sleeper) == ["small Open"]


def _gates(sleeper: Sleeper) -> list[str]:
    return [f"{gate['name']} {gate['state']}" for gate in sleeper.gates()]


def _backends(sleeper: Sleeper) -> list[str]:
    return [backend["cluster"] for backend in sleeper.status()["gate"]["backends"]]


def _worker_groups(sleeper: Sleeper) -> list[str]:
    spec = sleeper.admin.get("RayService", NAME)["spec"]["rayClusterConfig"]
    return [group["groupName"] for group in spec["workerGroupSpecs"]]


def _ray_pods_go(sleeper: Sleeper) -> None:
    """KubeRay ends the pods of a RayCluster that has gone."""
    eventually("no RayCluster", lambda: not sleeper.admin.list("RayCluster"))
    for pod in sleeper.admin.list("Pod"):
        sleeper.admin.delete("Pod", pod["metadata"]["name"])


def _schedulable(sleeper: Sleeper) -> tuple[str, str]:
    found = condition(sleeper.admin.get("LLMService", NAME), "Schedulable")
    return found["status"], found["reason"]


def _generations(sleeper: Sleeper) -> Any:
    ray_service = sleeper.admin.get("RayService", NAME)
    ray_cluster = sleeper.admin.get("RayCluster", sleeper.cluster)
    assert group_bounds(ray_cluster) == {(1, 1)}
    return [each["metadata"]["generation"] for each in (ray_service, ray_cluster)]


def _with_reason(sleeper: Sleeper, reason: str) -> Any:
    service = sleeper.admin.get("LLMService", NAME)
    return service if condition(service, "Ready").get("reason") == reason else None


def _annotate(sleeper: Sleeper, state: str | None) -> None:
    sleeper.admin.merge("LLMService", NAME, {"metadata": {"annotations": {"daybreak.dev/state": state}}})


def test_each_model_sleeps_and_wakes_independently(sleeper: Sleeper) -> None:
    """An idle model releases its workers, and a request for it wakes nothing else."""
    sleeper.create(models=[model(), model(name="other")], sleep=SOON)
    sleeper.starts()
    sleeper.kuberay.worker(NAME, sleeper.cluster, worker_group("other"))
    sleeper.kuberay.status(NAME, sleeper.cluster)
    sleeper.answers()
    sleeper.opened()
    eventually("both are open", lambda: _gates(sleeper) == ["tiny Open", "other Open"])

    def bounds() -> dict[str, tuple[int, int]]:
        groups = sleeper.admin.get("RayCluster", sleeper.cluster)["spec"]["workerGroupSpecs"]
        return {group["groupName"]: (group["minReplicas"], group["maxReplicas"]) for group in groups}

    sleeper.traffic(models={"other": {"idle": LONG_IDLE}})
    eventually("the other one sleeps", lambda: bounds() == {"tiny": (1, 1), "other": (0, 0)})
    assert [gate.get("sleepDepth") for gate in sleeper.gates()] == [None, "Workers"]
    assert (sleeper.status()["phase"], sleeper.status().get("sleepDepth")) == ("Awake", None)
    eventually("ready", lambda: _with_reason(sleeper, "Serving"))

    sleeper.traffic(idle=LONG_IDLE)
    sleeper.reaches("Asleep", "Closed", "Workers")
    sleeper.traffic(idle=LONG_IDLE, models={"other": {"held": 1}})
    eventually("the other one alone is woken", lambda: bounds() == {"tiny": (0, 0), "other": (1, 1)})
    eventually("and open", lambda: _gates(sleeper) == ["tiny Closed", "other Open"])
