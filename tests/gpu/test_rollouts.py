"""Rollouts on exactly as many GPUs as one service needs: no pod beyond them, and the desired spec runs."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from daybreak.api.common import names
from tests.gpu.exact import NAME, NEW, OLD, Exact, gate, image_of
from tests.gpu.looks import GPU, TOLERATED, overbooked, placed, pods
from tests.gpu.nodes import Nodes, h100
from tests.gpu.played_serve import COMPLETION, PlayedServe

pytestmark = [pytest.mark.xdist_group("gpu"), pytest.mark.usefixtures("gated")]
AWAKE = {"afterIdle": "1h"}


def rollout(exact: Exact) -> dict[str, Any]:
    """Return the rollout in the status."""
    found: dict[str, Any] = (exact.admin.get("LLMService", NAME).get("status") or {}).get("rollout") or {}
    return found


def runs(exact: Exact, image: str) -> Callable[[], bool]:
    """Return a check that the service's one worker has an image, and the gate admits requests."""

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
    """Wait until the rollout is in a phase. Returns the rollout's status."""
    exact.reaches(phase, lambda status: (status.get("rollout") or {}).get("phase") == phase)
    return rollout(exact)


@pytest.fixture
def stranger(exact: Exact, nodes: Nodes) -> Iterator[None]:
    """Create a second node, and another owner's pod that uses its GPU."""
    nodes.add(h100("h100-exact-2", 1, **{NAME: "other"}))
    container = {"name": "c", "image": "other", "resources": {"limits": {GPU: 1}}}
    spec = {"nodeSelector": {NAME: "other"}, "tolerations": TOLERATED, "containers": [container]}
    exact.admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": spec})
    exact.eventually("it has the GPU", lambda: exact.admin.get("Pod", "stranger")["spec"].get("nodeName"))
    exact.admin.merge("Node", "h100-exact-2", {"metadata": {"labels": {NAME: "yes"}}})
    yield
    exact.admin.delete("Pod", "stranger")


@pytest.mark.usefixtures("stranger")
def test_service_without_spare_gpu_is_replaced_while_requests_are_held(exact: Exact) -> None:
    up(exact)
    exact.gateways(held=3)
    edit(exact, runtime={"image": NEW})
    exact.eventually("the new one runs", runs(exact, NEW))
    message = reaches(exact, "Complete")
    assert message["strategy"] == "Replace"
    assert "no capacity for a second Ray cluster now" in message["reason"]
    assert message["currentRevisionNumber"] == 2
    placed(exact.admin, NAME, 1)
    assert overbooked(exact.admin) == []
    assert len(exact.admin.list("RayCluster")) == 1


def test_rollout_without_fit_check_replaces_if_second_cluster_has_no_room(
    exact: Exact,
) -> None:
    up(exact)
    unchecked = {names.FIT_CHECK_ANNOTATION: names.FIT_CHECK_OFF}
    exact.admin.merge("LLMService", NAME, {"metadata": {"annotations": unchecked}})
    edit(exact, runtime={"image": NEW})
    exact.eventually("the new one runs", runs(exact, NEW))
    message = reaches(exact, "Complete")
    assert message["strategy"] == "Replace"
    assert "a second Ray cluster found no capacity" in message["reason"]
    assert len(exact.admin.list("RayCluster")) == 1


def test_replacement_waits_for_requests_in_progress(exact: Exact) -> None:
    up(exact)
    exact.gateways(in_flight=1)
    edit(exact, runtime={"image": NEW})
    exact.reaches("replacing", lambda status: status["phase"] == "Replacing")
    time.sleep(3)
    [worker] = pods(exact.admin, NAME)
    assert image_of(worker) == OLD
    exact.gateways()
    exact.eventually("the new one runs", runs(exact, NEW))


def test_revision_that_cannot_start_is_rolled_back_on_same_gpu(exact: Exact) -> None:
    up(exact)
    exact.silent()
    edit(exact, runtime={"image": NEW}, rollout={"deadline": "12s"})
    exact.gateways(held=2)
    message = reaches(exact, "RollingBack")
    assert "has not answered within 12 s" in message["message"]
    exact.answers()
    exact.eventually("the old one runs", runs(exact, OLD))
    message = reaches(exact, "RolledBack")
    assert (message["currentRevisionNumber"], message["strategy"]) == (1, "Replace")
    assert overbooked(exact.admin) == []
    conditions = {each["type"]: each for each in exact.admin.get("LLMService", NAME)["status"]["conditions"]}
    assert conditions["Stalled"]["reason"] == "RolledBack"
    # A correction is taken at once.
    edit(exact, runtime={"image": "ray:newer"}, rollout={"deadline": "10m"})
    exact.eventually("the correction runs", runs(exact, "ray:newer"))
    assert reaches(exact, "Complete")["currentRevisionNumber"] == 3


def test_rollout_is_blue_green_if_second_gpu_is_free(exact: Exact, nodes: Nodes) -> None:
    nodes.add(h100("h100-exact-2", 1, **{NAME: "yes"}))
    up(exact)
    edit(exact, runtime={"image": NEW})
    exact.reaches(
        "rolled out", lambda status: (status.get("rollout") or {}).get("currentRevisionNumber") == 2
    )
    assert rollout(exact)["strategy"] == "BlueGreen"
    assert exact.is_open, "nobody is held"
    reaches(exact, "Complete")


def test_second_cluster_that_cannot_start_is_rolled_back(exact: Exact, nodes: Nodes) -> None:
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


def said_of(exact: Exact) -> dict[str, Any]:
    """Return the status."""
    status: dict[str, Any] = exact.admin.get("LLMService", NAME)["status"]
    return status


def backends(status: dict[str, Any]) -> list[str]:
    """Return the Ray clusters that gateways send requests to."""
    return [backend["cluster"] for backend in status["gate"]["backends"]]


@pytest.fixture
def by_image(exact: Exact, serve: PlayedServe) -> Iterator[dict[str, tuple[int, str]]]:
    """Yield answers of models by image, if they are errors; the operator probes over HTTP."""
    report: dict[str, tuple[int, str]] = {}

    def says(head: str) -> tuple[int, str]:
        # kwok reuses an address as soon as a pod is being deleted: the newest pod has it.
        every = exact.admin.list("Pod", labelSelector="ray.io/node-type=head")
        here = [pod["metadata"] for pod in every if pod["status"].get("podIP") == head]
        newest = max(here, key=lambda pod: (pod["creationTimestamp"], "deletionTimestamp" not in pod))
        cluster = newest["labels"][names.RAY_CLUSTER_LABEL]
        groups = exact.admin.get("RayCluster", cluster)["spec"]["workerGroupSpecs"]
        image = groups[0]["template"]["spec"]["containers"][0]["image"]
        return report.get(image, (200, COMPLETION))

    serve.says = says
    yield report
    serve.says = None


def beside(exact: Exact, nodes: Nodes, serve: PlayedServe) -> str:
    """Bring it up with room for a second Ray cluster; the first one's name."""
    nodes.add(h100("h100-exact-2", 1, **{NAME: "yes"}))
    up(exact)
    exact.answers(serve.proxy)
    [first] = exact.admin.list("RayCluster")
    assert backends(said_of(exact)) == [first["metadata"]["name"]]
    return str(first["metadata"]["name"])


def serves(exact: Exact, first: str, status: dict[str, Any]) -> None:
    """Check that requests go to the first, unchanged Ray cluster, and that no GPU is used twice."""
    assert gate(status)["state"] == "Open"
    assert backends(status) == [first]
    assert _gpus_held(exact) <= 2, "no pod beyond the GPUs that there are"
    held = [pod for pod in pods(exact.admin, NAME) if image_of(pod) == OLD]
    assert first in {pod["metadata"]["labels"][names.RAY_CLUSTER_LABEL] for pod in held}


@pytest.mark.parametrize(
    ("answer", "reported"),
    [
        pytest.param((200, '{"choices": []}'), "answered 200 without a completion", id="nonsense"),
        pytest.param((500, '{"error": "no CUDA"}'), "answered 500: no CUDA", id="errors"),
    ],
)
def test_revision_that_answers_errors_gets_no_requests_and_is_rolled_back(
    exact: Exact,
    nodes: Nodes,
    serve: PlayedServe,
    by_image: dict[str, tuple[int, str]],
    answer: tuple[int, str],
    reported: str,
) -> None:
    first = beside(exact, nodes, serve)
    by_image[NEW] = answer
    edit(exact, runtime={"image": NEW})

    def requested() -> bool:
        status = said_of(exact)
        serves(exact, first, status)
        [model] = status["models"]
        return "errorsStartTime" in model and reported in model.get("message", "")

    exact.eventually("it errs", requested)
    second = exact.admin.get("RayService", NAME)["status"]["activeServiceStatus"]["rayClusterName"]
    assert second != first, "KubeRay has switched"

    def gone_back() -> bool:
        status = said_of(exact)
        if status["rollout"]["phase"] == "RolledBack":
            return True
        serves(exact, first, status)
        return False

    exact.eventually("the old one is back", gone_back)
    message = rollout(exact)
    assert (message["currentRevisionNumber"], message["strategy"]) == (1, "BlueGreen")
    assert "nothing but errors" in message["message"]
    assert reported in message["message"]
    assert exact.is_open
    [third] = backends(said_of(exact))
    assert third not in (first, second)
    exact.eventually("its pods have gone", lambda: not _of(exact, second))
    assert [image_of(pod) for pod in _of(exact, third)] == [OLD]


def _of(exact: Exact, cluster: str) -> list[Any]:
    labelled = pods(exact.admin, NAME)
    return [pod for pod in labelled if pod["metadata"]["labels"][names.RAY_CLUSTER_LABEL] == cluster]


def test_correction_of_failed_revision_is_rolled_out_blue_green(
    exact: Exact, nodes: Nodes, serve: PlayedServe, by_image: dict[str, tuple[int, str]]
) -> None:
    first = beside(exact, nodes, serve)
    by_image[NEW] = (200, "{}")
    edit(exact, runtime={"image": NEW}, rollout={"onFailure": "Pause"})

    def failed() -> bool:
        status = said_of(exact)
        serves(exact, first, status)
        return bool(status["rollout"]["phase"] == "Failed")

    exact.eventually("it has failed", failed)
    edit(exact, runtime={"image": "ray:newer"})

    def corrected() -> bool:
        status = said_of(exact)
        if (status["rollout"]["phase"], status["rollout"]["currentRevisionNumber"]) == ("Complete", 3):
            return True
        serves(exact, first, status)
        return False

    exact.eventually("the correction answers", corrected)
    assert rollout(exact)["strategy"] == "BlueGreen"
    [third] = backends(said_of(exact))
    exact.eventually("it runs", lambda: [image_of(pod) for pod in _of(exact, third)] == ["ray:newer"])
    assert overbooked(exact.admin) == []


def test_a_correction_without_room_for_a_third_cluster_is_a_replacement(
    exact: Exact, nodes: Nodes, serve: PlayedServe, by_image: dict[str, tuple[int, str]]
) -> None:
    first = beside(exact, nodes, serve)
    by_image[NEW] = (200, "{}")
    edit(exact, runtime={"image": NEW}, rollout={"onFailure": "Pause"})
    exact.eventually("it has failed", lambda: rollout(exact)["phase"] == "Failed")
    serves(exact, first, said_of(exact))
    [model] = exact.admin.get("LLMService", NAME)["spec"]["models"]
    edit(exact, runtime={"image": "ray:newer"}, models=[{**model, "parallelism": {"pipeline": 2}}])
    exact.gateways(held=2)
    exact.eventually("the correction answers", lambda: rollout(exact)["phase"] == "Complete")
    assert (rollout(exact)["currentRevisionNumber"], rollout(exact)["strategy"]) == (3, "Replace")
    placed(exact.admin, NAME, 2)
    assert overbooked(exact.admin) == []


def test_failing_revision_on_single_gpu_is_rolled_back_with_held_requests(
    exact: Exact, serve: PlayedServe, by_image: dict[str, tuple[int, str]]
) -> None:
    up(exact)
    exact.answers(serve.proxy)
    by_image[NEW] = (200, "{}")
    edit(exact, runtime={"image": NEW})
    exact.gateways(held=2)
    message = reaches(exact, "RollingBack")
    assert "nothing but errors" in message["message"]
    assert not exact.is_open
    exact.eventually("the old one runs", runs(exact, OLD))
    assert reaches(exact, "RolledBack")["strategy"] == "Replace"
    assert overbooked(exact.admin) == []


def test_annotations_restore_old_revision_and_pause_rollout(exact: Exact) -> None:
    up(exact)
    edit(exact, runtime={"image": NEW})
    exact.eventually("the new one runs", runs(exact, NEW))
    reaches(exact, "Complete")
    kept = exact.admin.list("ControllerRevision", labelSelector=names.owner_selector(NAME))
    assert sorted(each["revision"] for each in kept) == [1, 2]
    undo = {"metadata": {"annotations": {names.ROLLOUT_REVISION_ANNOTATION: "1"}}}
    exact.admin.merge("LLMService", NAME, undo)
    exact.eventually("the old one runs", runs(exact, OLD))
    assert reaches(exact, "Complete")["currentRevisionNumber"] == 1
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
