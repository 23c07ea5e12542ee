"""An operator that is killed at any moment: the next operator reaches the same result."""

import signal

import pytest

from tests.api.admin import OWNED, Admin, eventually
from tests.api.normal import normal
from tests.api.objects.llmservice import counted, everything, model, settled, tiny
from tests.api.restarts import MOMENTS, POD, Start, work_is_done_in_spite_of_deaths

CHANGED = {"models": [model(replicas={"min": 2, "max": 3}, engine={"args": {"max_num_seqs": 4}})]}


def test_restarted_operator_writes_nothing_if_objects_are_unchanged(admin: Admin, alone: Start) -> None:
    first = alone(POD)
    first.start()
    first.wait_ready()
    admin.create(tiny())
    objects = eventually("all objects", lambda: counted(admin))
    service = eventually("a status", lambda: settled(admin))
    assert first.stop() == 0

    # Another process has no state of the first one: it observes all objects again.
    second = alone(POD)
    second.start()
    second.wait_ready()
    eventually("a reconcile", lambda: second.metric("daybreak_reconciles_total", outcome="done") >= 1)
    assert second.metric("daybreak_writes_total") == 0
    assert everything(admin) == objects
    assert admin.get("LLMService", "tiny") == service


@pytest.mark.parametrize("moment", MOMENTS)
def test_operator_killed_at_each_write_reaches_same_objects_and_status(
    moment: str, admin: Admin, alone: Start
) -> None:
    """Each operator dies at its second write: before it is sent, once it is sent, or when it is answered.

    Therefore every state between two writes is the start of one operator, and every write but the first the
    end of another.
    """
    admin.create(tiny())
    work_is_done_in_spite_of_deaths(moment, alone, len(OWNED), lambda: settled(admin) and everything(admin))
    disturbed = normal(admin, eventually("all objects", lambda: everything(admin)))
    status = eventually("a status", lambda: settled(admin))["status"]
    admin.delete("LLMService", "tiny")
    eventually("everything gone", lambda: not _any(admin))

    calm = alone(POD)
    calm.start()
    admin.create(tiny())
    assert disturbed == normal(admin, eventually("all objects", lambda: everything(admin)))
    reference = eventually("a status", lambda: settled(admin))["status"]
    assert _timeless(status) == _timeless(reference)


def test_change_is_completed_after_operator_is_killed(admin: Admin, alone: Start) -> None:
    first = alone(POD)
    first.start()
    admin.create(tiny())
    eventually("all objects", lambda: everything(admin))
    eventually("a status", lambda: settled(admin))
    first.kill()
    admin.merge("LLMService", "tiny", {"spec": CHANGED})
    dying = alone(POD, PLAYED_DEATH="2 sent")
    dying.start()
    eventually("its end", lambda: not dying.running)
    assert dying.wait(0) == -signal.SIGKILL, dying.log()[-2000:]
    last = alone(POD)
    last.start()
    eventually("a status of the new spec", lambda: settled(admin))
    budget = admin.get("PodDisruptionBudget", "tiny-ray")
    assert budget["spec"]["minAvailable"] == 2
    [group] = admin.get("RayService", "tiny")["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    assert (group["minReplicas"], group["maxReplicas"]) == (2, 3)


def _any(admin: Admin) -> bool:
    return any(admin.list(kind, labelSelector="app.kubernetes.io/managed-by=daybreak") for kind in OWNED)


def _timeless(status: dict[str, object]) -> object:
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    rollout = status["rollout"]
    assert isinstance(rollout, dict)
    return {
        **status,
        "rollout": {**rollout, "startTime": ""},
        "conditions": [{**each, "lastTransitionTime": ""} for each in conditions],
    }
