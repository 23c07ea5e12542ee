"""Rollouts on exactly as many GPUs as one service needs: no pod beyond them, and what is asked for runs."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from daybreak.api.common import names
from tests.gpu.exact import NAME, NEW, OLD, Exact, image_of
from tests.gpu.looks import GPU, TOLERATED, overbooked, placed, pods
from tests.gpu.nodes import Nodes, h100

pytestmark = [pytest.mark.xdist_group("gpu"), pytest.mark.usefixtures("gated")]
AWAKE = {"afterIdle": "1h"}


def rollout(exact: Exact) -> dict[str, Any]:
    """What the status says of the rollout."""
    found: dict[str, Any] = (exact.admin.get("LLMService", NAME).get("status") or {}).get("rollout") or {}
    return found


def runs(exact: Exact, image: str) -> Callable[[], bool]:
    """Whether the service's one worker has an image, and requests are let through."""

    def look() -> bool:
        assert _gpus_held(exact) <= 1, "no pod beyond the GPU that there is"
        return exact.is_open and [image_of(pod) for pod in pods(exact.admin, NAME)] == [image]

    return look


def _gpus_held(exact: Exact) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods(exact.admin, NAME))


def up(exact: Exact, **spec: Any) -> None:
    """Make it, and wait until it has rolled out."""
    exact.make(AWAKE, **spec)
    exact.opens()
    exact.reaches("rolled out", lambda status: (status.get("rollout") or {}).get("phase") == "Complete")


def edit(exact: Exact, **spec: Any) -> None:
    """Change the spec."""
    exact.admin.merge("LLMService", NAME, {"spec": spec})


def reaches(exact: Exact, phase: str) -> dict[str, Any]:
    """Wait until the rollout is in a phase; returns what is said of it."""
    exact.reaches(phase, lambda status: (status.get("rollout") or {}).get("phase") == phase)
    return rollout(exact)


@pytest.fixture
def stranger(exact: Exact, nodes: Nodes) -> Iterator[None]:
    """A second node, whose GPU a pod of somebody else holds."""
    nodes.add(h100("h100-exact-2", 1, **{NAME: "other"}))
    container = {"name": "c", "image": "other", "resources": {"limits": {GPU: 1}}}
    spec = {"nodeSelector": {NAME: "other"}, "tolerations": TOLERATED, "containers": [container]}
    exact.admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": spec})
    exact.eventually("it has the GPU", lambda: exact.admin.get("Pod", "stranger")["spec"].get("nodeName"))
    exact.admin.merge("Node", "h100-exact-2", {"metadata": {"labels": {NAME: "yes"}}})
    yield
    exact.admin.delete("Pod", "stranger")


@pytest.mark.usefixtures("stranger")
def test_an_awake_service_is_replaced_while_its_clients_are_held(exact: Exact) -> None:
    up(exact)
    exact.gateways(held=3)
    edit(exact, runtime={"image": NEW})
    exact.eventually("the new one runs", runs(exact, NEW))
    said = reaches(exact, "Complete")
    assert said["strategy"] == "Replace"
    assert "no room for a second Ray cluster now" in said["reason"]
    assert said["number"] == 2
    placed(exact.admin, NAME, 1)
    assert overbooked(exact.admin) == []
    assert len(exact.admin.list("RayCluster")) == 1


def test_where_nodes_do_not_tell_a_second_cluster_without_room_gives_way_to_a_replacement(
    exact: Exact,
) -> None:
    up(exact)
    unchecked = {names.FIT_CHECK_ANNOTATION: names.FIT_CHECK_OFF}
    exact.admin.merge("LLMService", NAME, {"metadata": {"annotations": unchecked}})
    edit(exact, runtime={"image": NEW})
    exact.eventually("the new one runs", runs(exact, NEW))
    said = reaches(exact, "Complete")
    assert said["strategy"] == "Replace"
    assert "a second Ray cluster found no room" in said["reason"]
    assert len(exact.admin.list("RayCluster")) == 1


def test_requests_in_progress_end_first(exact: Exact) -> None:
    up(exact)
    exact.gateways(in_flight=1)
    edit(exact, runtime={"image": NEW})
    exact.reaches("replacing", lambda status: status["phase"] == "Replacing")
    time.sleep(3)
    [worker] = pods(exact.admin, NAME)
    assert image_of(worker) == OLD
    exact.gateways()
    exact.eventually("the new one runs", runs(exact, NEW))


def test_what_cannot_start_goes_back_on_the_same_gpu(exact: Exact) -> None:
    up(exact)
    exact.silent()
    edit(exact, runtime={"image": NEW}, rollout={"deadline": "12s"})
    exact.gateways(held=2)
    said = reaches(exact, "RollingBack")
    assert "has not answered within 12 s" in said["message"]
    exact.answers()
    exact.eventually("the old one runs", runs(exact, OLD))
    said = reaches(exact, "RolledBack")
    assert (said["number"], said["strategy"]) == (1, "Replace")
    assert overbooked(exact.admin) == []
    conditions = {each["type"]: each for each in exact.admin.get("LLMService", NAME)["status"]["conditions"]}
    assert conditions["Stalled"]["reason"] == "RolledBack"
    # A correction is taken at once.
    edit(exact, runtime={"image": "ray:newer"}, rollout={"deadline": "10m"})
    exact.eventually("the correction runs", runs(exact, "ray:newer"))
    assert reaches(exact, "Complete")["number"] == 3


def test_with_room_a_second_cluster_comes_first(exact: Exact, nodes: Nodes) -> None:
    nodes.add(h100("h100-exact-2", 1, **{NAME: "yes"}))
    up(exact)
    edit(exact, runtime={"image": NEW})
    exact.reaches("rolled out", lambda status: (status.get("rollout") or {}).get("number") == 2)
    assert rollout(exact)["strategy"] == "BlueGreen"
    assert exact.is_open, "nobody is held"
    reaches(exact, "Complete")


def test_a_second_cluster_that_cannot_start_is_given_up(exact: Exact, nodes: Nodes) -> None:
    nodes.add(h100("h100-exact-2", 1, **{NAME: "yes"}))
    up(exact)
    before = exact.admin.list("RayCluster")[0]["metadata"]["name"]
    # Its worker runs nowhere, so Serve never says that it is up.
    edit(
        exact,
        runtime={"image": NEW, "env": [{"name": "A", "value": "b"}]},
        rollout={"strategy": "BlueGreen", "deadline": "15s"},
        models=[{**exact.admin.get("LLMService", NAME)["spec"]["models"][0], "resources": {"cpu": "4000"}}],
    )
    assert "15 s" in reaches(exact, "RolledBack")["message"]
    assert exact.is_open
    status = exact.admin.get("RayService", NAME)["status"]
    assert status["activeServiceStatus"]["rayClusterName"] == before, "the first one served all the time"
    assert not (status.get("pendingServiceStatus") or {}).get("rayClusterName")


def test_history_and_undo(exact: Exact) -> None:
    up(exact)
    edit(exact, runtime={"image": NEW})
    exact.eventually("the new one runs", runs(exact, NEW))
    reaches(exact, "Complete")
    kept = exact.admin.list("ControllerRevision", labelSelector=f"{names.SERVICE_LABEL}={NAME}")
    assert sorted(each["revision"] for each in kept) == [1, 2]
    undo = {"metadata": {"annotations": {names.ROLLOUT_REVISION_ANNOTATION: "1"}}}
    exact.admin.merge("LLMService", NAME, undo)
    exact.eventually("the old one runs", runs(exact, OLD))
    assert reaches(exact, "Complete")["number"] == 1
    paused = {
        "metadata": {
            "annotations": {names.ROLLOUT_REVISION_ANNOTATION: None, names.ROLLOUT_PAUSED_ANNOTATION: "true"}
        }
    }
    exact.admin.merge("LLMService", NAME, paused)
    reaches(exact, "Paused")
    assert runs(exact, OLD)()
    exact.admin.merge(
        "LLMService", NAME, {"metadata": {"annotations": {names.ROLLOUT_PAUSED_ANNOTATION: None}}}
    )
    exact.eventually("the new one runs", runs(exact, NEW))
