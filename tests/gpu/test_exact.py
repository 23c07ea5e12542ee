"""Exactly as many GPUs as one service needs: changes are never stuck, and several services take turns.

Simulated besides the parts that `conftest.py` names: Ray's autoscaler, which deletes pods of groups at zero.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.objects.batches import NIGHT
from tests.api.playing.words import PATIENCE
from tests.gpu.exact import NAME, NEW, OLD, Exact, gate, image_of
from tests.gpu.looks import TOLERATED, overbooked, placed, pods, service, small
from tests.gpu.nodes import LONGEST_BACKOFF, Nodes, h100

pytestmark = [pytest.mark.xdist_group("gpu-turns"), pytest.mark.usefixtures("gated")]


@pytest.fixture
def other(exact: Exact, answers: Path, traffic: Path) -> Exact:
    """Return a second service that needs the same GPU."""
    return Exact(exact.admin, answers, traffic, "other")


@pytest.mark.parametrize("depth", ["Workers", "Cluster"])
@pytest.mark.parametrize("moment", ["asleep", "waking", "updating"])
def test_change_is_rolled_out_without_spare_gpu(exact: Exact, moment: str, depth: str) -> None:
    exact.create(depth)
    [before] = placed(exact.admin, NAME, 1)
    assert image_of(before) == OLD
    if moment == "asleep":
        exact.sleeps(depth)
        exact.changes()
    elif moment == "waking":
        exact.sleeps(depth)
        exact.silent()
        exact.gateways(held=1)
        exact.reaches("waking", lambda status: gate(status)["phase"] == "Waking")
        placed(exact.admin, NAME, 1)
        exact.changes()
        exact.answers()
    else:
        exact.admin.merge("LLMService", NAME, {"spec": {"rollout": {"strategy": "BlueGreen"}}})
        exact.changes()
        exact.reaches("updating", lambda status: status["phase"] == "Updating")
        exact.sleeps(depth)
    exact.wakes()
    exact.eventually("the new one runs", lambda: [image_of(pod) for pod in pods(exact.admin, NAME)] == [NEW])
    [worker] = placed(exact.admin, NAME, 1)
    assert image_of(worker) == NEW
    exact.reaches("open", lambda status: gate(status)["state"] == "Open")
    assert overbooked(exact.admin) == []


PATIENT = {"afterIdle": "1h", "minAwake": "1s"}
"""Sleep settings of a model that no timer puts to sleep in the tests that follow."""


@pytest.fixture
def urgent(exact: Exact) -> Iterator[str]:
    """Create a priority class of pods that go first and preempt no other pod."""
    name = f"urgent-{exact.admin.namespace}"
    about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    exact.admin.create({**about, "value": 1000, "preemptionPolicy": "Never"})
    yield name
    exact.admin.delete("PriorityClass", name)


def test_idle_service_yields_gpu_to_service_with_held_request(
    exact: Exact, other: Exact, urgent: str
) -> None:
    exact.make(PATIENT)
    exact.opens()
    other.make(PATIENT, podTemplate={"spec": {"priorityClassName": urgent}})
    other.gateways(held=1)
    other.eventually("the scheduler has no room", lambda: _waits(other))
    assert exact.is_open, "one that is asked keeps its GPU"
    assert placed(exact.admin, NAME, 1), "whatever the class of the other's pods"
    exact.gateways(idle=60)
    other.opens()
    exact.reaches("asleep", lambda status: status.get("sleepDepth") == "Workers")
    # The status keeps the duration, and the workload that the accelerators were held for.
    other.reaches(
        "measured",
        lambda status: len(gate(status).get("acceleratorQueue", {}).get("recentWaitSeconds", ())) == 1,
    )
    exact.reaches("counted", lambda status: status["savings"].get("contendedSeconds", 0) > 0)
    exact.reaches("counted no more", lambda status: "contended" not in status["savings"])
    # And back.
    exact.gateways(held=1)
    other.gateways(idle=60)
    exact.opens()
    other.reaches("asleep", lambda status: status.get("sleepDepth") == "Workers")
    # A queued model without clients does not wait for its idle time.
    other.gateways(held=1)
    other.reaches("in the queue", lambda status: gate(status).get("acceleratorQueue", {}).get("position"))
    other.gateways(idle=60)
    other.reaches("asleep again", lambda status: status.get("sleepDepth") == "Workers")
    assert exact.is_open
    assert overbooked(exact.admin) == []


def test_services_with_yield_always_alternate_on_one_gpu(exact: Exact, other: Exact) -> None:
    both = (exact, other)
    for each in both:
        each.make(PATIENT | {"yield": "Always"})
        each.gateways(held=1)
    exact.eventually("one is up", lambda: any(each.is_open for each in both))
    first, second = both if exact.is_open else (other, exact)
    for up, down in ((second, first), (first, second)):
        up.opens()
        down.reaches("in the queue", lambda status: gate(status).get("queuedBehind"))
        assert not down.is_open
    assert overbooked(exact.admin) == []


def test_service_with_yield_never_keeps_its_gpu(exact: Exact, other: Exact) -> None:
    exact.make(PATIENT | {"yield": "Never"})
    exact.opens()
    exact.gateways(idle=60)
    other.make(PATIENT)
    other.gateways(held=1)
    other.eventually("the scheduler has no room", lambda: _waits(other))
    time.sleep(3 * PATIENCE.total_seconds())
    assert exact.is_open


def test_services_do_not_deadlock_with_half_of_their_gpus_each(
    exact: Exact, other: Exact, nodes: Nodes
) -> None:
    nodes.add(h100("h100-exact-2", 1, **{NAME: "yes"}))
    both = (exact, other)
    for each in both:
        each.make(PATIENT, parallelism={"tensor": 1, "pipeline": 2})
        each.gateways(held=1)
    exact.eventually("one is up", lambda: any(each.is_open for each in both))
    first, second = both if exact.is_open else (other, exact)
    placed(first.admin, first.name, 2)
    first.gateways(idle=60)
    second.opens()
    placed(second.admin, second.name, 2)
    assert overbooked(exact.admin) == []


def test_awake_service_regains_gpu_after_loss_of_pod(
    exact: Exact, other: Exact, nodes: Nodes, urgent: str
) -> None:
    """The other one waits already, and the scheduler gives it the GPU that comes free."""
    nodes.add(h100("h100-exact-2", 1, **{NAME: "yes"}))
    exact.make(PATIENT, parallelism={"tensor": 1, "pipeline": 2})
    exact.opens()
    [lost, _] = placed(exact.admin, NAME, 2)
    exact.gateways(in_flight=1)
    first_in_line = {"podTemplate": {"spec": {"priorityClassName": urgent}}}
    other.make(PATIENT, parallelism={"tensor": 1, "pipeline": 2}, **first_in_line)
    other.gateways(held=1)
    other.eventually("the scheduler has no room", lambda: _waits(other))
    time.sleep(2 * LONGEST_BACKOFF)
    before, moment = exact.moment(), other.moment()
    exact.admin.delete("Pod", lost["metadata"]["name"])
    exact.passes("it has lost half", before, lambda status: _savings(status, "awake") == 1)
    other.passes("it has half", moment, lambda status: _savings(status, "waking") == 1)
    other.passes("it gives that back", moment, lambda status: gate(status).get("queuedBehind"))
    exact.eventually("it has both again", lambda: sum(map(_runs, pods(exact.admin, NAME))) == 2)
    assert exact.is_open
    other.reaches("it waits on", lambda status: not gate(status).get("queuedBehind"))
    exact.gateways(idle=60)
    other.opens()
    assert overbooked(exact.admin) == []


def test_models_of_a_new_service_do_not_wait_for_each_other(exact: Exact) -> None:
    """The models receive requests before KubeRay marks the cluster active, which needs all deployments."""
    model = small(nodeSelector={NAME: "yes"}, tolerations=TOLERATED)
    models = [{**model, "name": name, "replicas": {"min": 0, "initial": 0}} for name in ("one", "two")]
    manifest = service(NAME, *models)
    manifest["spec"] |= {"sleep": PATIENT}
    exact.answers()
    exact.gateways(held=1)
    exact.admin.create(manifest)
    exact.reaches("one is up", lambda status: len(_open(status)) == 1)
    [first] = _open(exact.admin.get("LLMService", NAME)["status"])
    [second] = {"one", "two"} - {first}
    exact.gateways(models={first: {"idle": 60}, second: {"held": 1}})
    exact.reaches("the other one is up", lambda status: _open(status) == [second])
    assert overbooked(exact.admin) == []


def _open(status: dict[str, Any]) -> list[str]:
    return [each["name"] for each in status["gate"]["models"] if each["state"] == "Open"]


@pytest.fixture
def night(exact: Exact) -> Iterator[str]:
    """Create a batch that needs the same GPU. Returns its label value."""
    model = small(nodeSelector={NAME: "yes"}, tolerations=TOLERATED)
    batch = NIGHT.manifest(model=model, minRunDuration="1s")
    exact.admin.create(batch)
    yield names.of_owner("LLMBatch", "night")
    exact.admin.delete("LLMBatch", "night")


def test_batch_yields_gpu_to_waking_service_and_resumes_afterwards(exact: Exact, night: str) -> None:
    placed(exact.admin, night, 1)
    before = exact.admin.get("RayJob", "night")["metadata"]["uid"]
    exact.make(PATIENT)
    exact.gateways(held=1)
    exact.opens()
    placed(exact.admin, exact.name, 1)
    eventually("it is told", lambda: "WaitingForAccelerators" in _events(exact.admin, "night"))
    # It is in the accelerator queue again, and takes nothing from an awake model, idle or not.
    exact.gateways(idle=60)
    exact.eventually("a new job", lambda: _new_job(exact.admin, before))
    time.sleep(2 * PATIENCE.total_seconds())
    assert exact.is_open
    exact.admin.merge("LLMService", exact.name, {"spec": {"state": "Asleep"}})
    exact.eventually("it runs again", lambda: [each for each in pods(exact.admin, night) if _runs(each)])
    assert overbooked(exact.admin) == []


def _new_job(admin: Admin, before: str) -> bool:
    job = admin.get("RayJob", "night")
    return job is not None and job["metadata"]["uid"] != before


def _events(admin: Admin, name: str) -> set[str]:
    return {each["reason"] for each in admin.list("Event") if each["regarding"]["name"] == name}


def _runs(pod: Any) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _savings(status: dict[str, Any], field: str) -> Any:
    return status.get("savings", {}).get(field)


def _waits(service: Exact) -> bool:
    return any(
        each.get("reason") == "Unschedulable"
        for pod in pods(service.admin, service.name)
        for each in pod["status"].get("conditions", [])
    )
