"""An operator that is killed while a service falls asleep or wakes: the next one ends at the same place."""

import contextlib
import itertools
import json
import math
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from daybreak.api.common.names import owner_selector
from tests.api.admin import OWNED, Admin, Refused, eventually
from tests.api.normal import normal
from tests.api.objects.llmservice import NAMES
from tests.api.objects.sleeper import GATEWAY, NAME, Sleeper, group_bounds, min_replicas
from tests.api.operator_process import OperatorProcess
from tests.api.playing.words import LONG_IDLE

Start = Callable[..., OperatorProcess]
POD = "operator"
"""One pod that restarts its container: the new operator need not wait for its own lease."""
MOST_STARTS = 40
WRITES = 4
"""Minimum number of writes of a sleep or a wake: two of the status, RayService and PodDisruptionBudget."""
MOST_WRITES = {"before": 1, "sent": 2}
"""How many of an operator's writes arrive that dies at its second one."""
# Dozens of starts one after the other: a machine with nothing to spare needs minutes.
pytestmark = pytest.mark.timeout(900)
WATCHED = ("LLMService", "RayService", "RayCluster")


@pytest.fixture
def start(alone: Start, traffic: Path) -> Start:
    """Starts an operator with gateways."""

    def begin(**settings: str) -> OperatorProcess:
        process = alone(POD, PLAYED_TRAFFIC=str(traffic), **GATEWAY, **settings)
        process.start()
        return process

    return begin


@pytest.mark.parametrize(("moment", "depth"), [("before", "Workers"), ("sent", "Cluster")])
def test_sleep_and_wake_complete_after_operator_is_killed_at_each_write(
    moment: str, depth: str, sleeper: Sleeper, start: Start
) -> None:
    """Sleep and wake once undisturbed, then with operators that all die at their second write.

    `before`: it is not sent. So every state between two writes is some operator's start. `sent`: it has just
    been sent, so it may have reached the API server or not, and no client has read the answer. What the API
    server knows afterwards is what it knows after `before`, with one write more or not: so each moment is
    tried with one depth, `sent` with the one that makes and deletes objects: a write may then come twice.
    """
    calm = start()
    calm.wait_ready()
    _brought_up(sleeper, depth)
    slept, woke = [_ends(sleeper, message) for message in (_fall_asleep, _ask)]
    if depth == "Workers":
        # Its Ray cluster outlives a sleep: with a new one, both are the first sleep of theirs.
        sleeper.admin.delete("LLMService", NAME)
        eventually("everything gone", lambda: _gone(sleeper))
        _brought_up(sleeper, depth)
    calm.kill()
    since = _Since(sleeper.admin)
    _fall_asleep(sleeper)
    dies = f"2 {moment}"
    # The one that lives on may have written as often as each of those that died.
    fewest = math.ceil(WRITES / MOST_WRITES[moment]) - 1
    assert _killed_until(sleeper, start, dies, slept) >= fewest, "too few have died for this to mean anything"
    _ask(sleeper)
    assert _killed_until(sleeper, start, dies, woke) >= fewest, "too few have died for this to mean anything"
    since.check()


@pytest.mark.parametrize("depth", ["Workers", "Cluster"])
def test_held_request_cancels_sleep_that_killed_operator_did_not_execute(
    depth: str, sleeper: Sleeper, start: Start
) -> None:
    """An operator died when it had written that the service sleeps, and had taken nothing yet."""
    first = start()
    _brought_up(sleeper, depth)
    first.kill()
    before = _identities(sleeper)
    gate = sleeper.gates()[0]
    slept = {"state": "Closed", "epoch": gate["epoch"] + 1, "phase": "Asleep", "sleepDepth": depth}
    message = {"phase": "Asleep", "sleepDepth": depth, "gate": {"models": [gate | slept]}}
    sleeper.admin.merge("LLMService", NAME, {"status": message}, subresource="status")
    sleeper.traffic(held=1)
    start()
    sleeper.opened()
    assert sleeper.wake()["depth"] == depth
    assert _identities(sleeper) == before, "nothing was taken, so nothing had to be made again"


def _brought_up(sleeper: Sleeper, depth: str) -> None:
    sleeper.traffic()
    # The hold would be another one when a wake has been measured.
    sleeper.awake(sleep={"afterIdle": "1s", "depth": depth}, hold={"timeout": "15m"})
    eventually("at rest", lambda: _timeless(sleeper)["phase"] == "Awake" and _at_rest(sleeper))


def _fall_asleep(sleeper: Sleeper) -> None:
    sleeper.traffic(idle=LONG_IDLE)


def _ask(sleeper: Sleeper) -> None:
    sleeper.traffic(held=1)


def _ends(sleeper: Sleeper, begin: Callable[[Sleeper], None]) -> dict[str, Any]:
    """Return the result of an undisturbed operator."""
    begin(sleeper)
    phase = "Asleep" if begin is _fall_asleep else "Awake"

    def there() -> bool:
        _kuberay_goes_on(sleeper)
        return bool(sleeper.status()["phase"] == phase and _at_rest(sleeper))

    try:
        eventually(f"{phase}, undisturbed", there)
    except AssertionError as error:
        raise AssertionError(f"{error}; its status is {sleeper.status()}") from None
    return _everything(sleeper)


def _killed_until(sleeper: Sleeper, start: Start, dies: str, desired: dict[str, Any]) -> int:
    """Operators that die one after the other, until one has nothing more to do. Returns how many died."""
    for deaths in range(MOST_STARTS):
        process = start(PLAYED_DEATH=dies)

        def ended(process: OperatorProcess = process) -> bool:
            _kuberay_goes_on(sleeper)
            return not process.running or _everything(sleeper) == desired

        try:
            eventually("its end, or all its work done", ended)
        except AssertionError:
            assert _everything(sleeper) == desired
        if process.running:
            process.kill()
            return deaths
        assert process.wait(0) == -signal.SIGKILL, process.log()[-2000:]
    raise AssertionError("never came to an end")


def _kuberay_goes_on(sleeper: Sleeper) -> None:
    """Play what KubeRay and the garbage collector would do next."""
    admin = sleeper.admin
    ray_service, clusters = admin.get("RayService", NAME), admin.list("RayCluster")
    if not clusters:
        pods = _ray_pods(sleeper)
        for pod in pods:
            admin.delete("Pod", pod["metadata"]["name"])
        if ray_service and not pods:
            sleeper.starts()
        return
    [owner] = clusters[0]["metadata"]["ownerReferences"]
    if ray_service is None or ray_service["metadata"]["uid"] != owner["uid"]:
        with contextlib.suppress(Refused):  # there is a real one, which may be quicker
            admin.delete("RayCluster", clusters[0]["metadata"]["name"])
        return
    if _generation_seen(ray_service) != ray_service["metadata"]["generation"]:
        sleeper.kuberay.status(NAME, sleeper.cluster)


def _generation_seen(ray_service: Any) -> Any:
    return (ray_service.get("status") or {}).get("observedGeneration")


def _identities(sleeper: Sleeper) -> list[tuple[str, int]]:
    """Return the uid and generation of the RayService and the Ray cluster."""
    admin = sleeper.admin
    found = [admin.get("RayService", NAME), admin.get("RayCluster", sleeper.cluster)]
    return [(each["metadata"]["uid"], each["metadata"]["generation"]) for each in found]


def _at_rest(sleeper: Sleeper) -> bool:
    """Return True if an operator has nothing more to report or do."""
    status = sleeper.status()
    conditions = {each["type"]: each for each in status["conditions"]}
    states = {model["state"] for model in status["models"]}
    steady = conditions["Reconciling"]["reason"] == "Reconciled"
    if status.get("sleepDepth") == "Cluster":
        return states == {"Asleep"} and sleeper.admin.get("RayService", NAME) is None and _no_pods(sleeper)
    bounds = group_bounds(sleeper.admin.get("RayCluster", sleeper.cluster))
    if status.get("sleepDepth"):
        return steady and states == {"Asleep"} and bounds == {(0, 0)}
    return steady and states == {"Ready"} and bounds == {(1, 1)}


def _no_pods(sleeper: Sleeper) -> bool:
    return not _ray_pods(sleeper) and sleeper.status()["replicas"] == 0


def _ray_pods(sleeper: Sleeper) -> Any:
    """Return the Ray pods of the service, without the gateway's."""
    return sleeper.admin.list("Pod", labelSelector=owner_selector(NAME))


def _everything(sleeper: Sleeper) -> dict[str, Any]:
    """The owned objects that are there, bounds and status, without what differs from run to run."""
    admin = sleeper.admin
    found = {kind: live for kind in OWNED if (live := admin.get(kind, NAMES[kind]))}
    clusters = admin.list("RayCluster")
    return {
        "objects": normal(admin, found),
        "bounds": [sorted(group_bounds(cluster)) for cluster in clusters],
        "status": json.loads(json.dumps(_timeless(sleeper)).replace(admin.namespace, "NAMESPACE")),
    }


def _timeless(sleeper: Sleeper) -> dict[str, Any]:
    status = sleeper.status()
    # Asleep it is the last one's: the first time there was none.
    wake = sleeper.wake() if not status.get("sleepDepth") else {}
    for time in ("recent", "startTime", "seconds", "phases", "p50Seconds", "p95Seconds"):
        wake.pop(time, None)
    conditions = [{**each, "lastTransitionTime": ""} for each in status.get("conditions") or ()]
    # The counting of epochs is looked at by itself; pauses and what follows from them are times.
    gates = [
        {**each, "epoch": 0, "phaseTransitionTime": "", "wake": wake, "idle": None}
        for each in sleeper.gates()
    ]
    gate = {**status["gate"], "models": gates}
    rollout = {**status["rollout"], "startTime": ""}
    return {**status, "phaseTransitionTime": "", "gate": gate, "rollout": rollout, "conditions": conditions}


def _gone(sleeper: Sleeper) -> bool:
    admin = sleeper.admin
    if admin.list("RayCluster") or any(admin.get(kind, NAMES[kind]) for kind in OWNED):
        return False
    for pod in admin.list("Pod"):
        with contextlib.suppress(Refused):  # the gateway's go by themselves
            admin.delete("Pod", pod["metadata"]["name"])
    return not admin.list("Pod")


class _Since:
    """Everything that is written from now on, in the order in which it was."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        listed = {kind: admin.request("GET", admin.path(kind)) for kind in WATCHED}
        self._version = {kind: found["metadata"]["resourceVersion"] for kind, found in listed.items()}
        self._now = {kind: found["items"][0] for kind, found in listed.items()}

    def check(self) -> None:
        """Check the invariants that hold after every write."""
        # Each watch lasts its five seconds: all at once.
        with ThreadPoolExecutor(len(WATCHED)) as pool:
            every = itertools.chain.from_iterable(pool.map(self._events, WATCHED))
        events = sorted(every, key=_version_of)
        assert {kind for kind, _ in events} == set(WATCHED)
        for kind, event in events:
            before = self._now[kind]
            self._now[kind] = {} if event["type"] == "DELETED" else event["object"]
            if kind == "LLMService":
                _gate_is_counted(_first_gate(before), _first_gate(self._now[kind]))
            self._holds(kind)

    def _holds(self, kind: str) -> None:
        status = self._now["LLMService"]["status"]
        asleep, gate = status.get("sleepDepth"), status["gate"]["models"][0]["state"]
        ray_service, ray_cluster = self._now["RayService"], self._now["RayCluster"]
        assert not (asleep and gate == "Open"), status
        numbers = min_replicas(ray_service) if ray_service else None
        if kind == "RayService" and numbers != 1:
            assert asleep, "scaled down before the status said so"
            assert ray_service or asleep == "Cluster"
        if kind == "RayCluster" and ray_cluster and group_bounds(ray_cluster) != {(1, 1)}:
            assert asleep, "scaled down before the status said so"
        if gate == "Open":
            assert numbers == 1, "opened before the numbers were back"
            assert group_bounds(ray_cluster) == {(1, 1)}, "opened before the bounds were back"

    def _events(self, kind: str) -> list[tuple[str, Any]]:
        events = self._admin.events(kind, self._version[kind], 5)
        for event in events:
            assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
        return [(kind, event) for event in events]


def _version_of(event: tuple[str, Any]) -> int:
    return int(event[1]["object"]["metadata"]["resourceVersion"])


def _first_gate(service: Any) -> Any:
    return service["status"]["gate"]["models"][0]


def _gate_is_counted(before: Any, after: Any) -> None:
    assert after["epoch"] >= before["epoch"]
    if after["state"] != before["state"]:
        assert after["epoch"] > before["epoch"]
