"""Each check of a model's health alone: its conditions and its result."""

from dataclasses import replace
from typing import Any

import pytest

from daybreak.api.gates.gate_state import GateState
from daybreak.api.gates.gate_status import Phase
from daybreak.api.gates.sleep import SleepDepth
from daybreak.api.llmservice.status import ModelState
from daybreak.api.ray.model import Parallelism
from daybreak.gates.sleep_state import SleepState
from daybreak.kinds.llmservice.decide import model_checks
from daybreak.kinds.llmservice.decide.fingerprint import Fingerprint
from daybreak.kinds.llmservice.decide.model_checks import CHECKS, Case, Judgement
from daybreak.ray.views.ray_pods import pod_views
from daybreak.ray.views.ray_service_view import Application, Deployment
from tests.unit.llmservice.decide.scenes.services import START, pod
from tests.unit.llmservice.decide.scenes.waking import snapshot

READY, UNPLACED, PLACED = (
    pod_views((each,))[0] for each in (pod(), pod(placed=False, ready=False), pod(ready=False))
)
SLEEPING = SleepState(Phase.ASLEEP, START, SleepDepth.WORKERS, GateState.CLOSED, 3)
WAKING = SleepState(Phase.WAKING, START, None, GateState.CLOSED, 3)


def case(
    *,
    pods: Any = (READY,),
    proven: bool = False,
    message: str = "Ready",
    sleep_state: SleepState | None = None,
    pending: str = "",
    application: str = "RUNNING",
    deployment: str = "HEALTHY",
    **ray: Any,
) -> Case:
    """Return a case of a model in the active Ray cluster, with the given differences."""
    observed = snapshot()
    deployments = dict(observed.ray.application.deployments) if observed.ray.application else {}
    name = next(name for name in deployments if "tiny" in name)
    deployments[name] = Deployment(deployment, "")
    view = replace(
        observed.ray, application=Application(application, "", deployments), pending=pending, **ray
    )
    answered = str(Fingerprint.now(view)) if proven else None
    before = replace(
        observed.before,
        models={"tiny": {"name": "tiny", "state": message, "probedConfiguration": answered}},
        sleep_states={} if sleep_state is None else {"tiny": sleep_state},
    )
    given_back = frozenset({"tiny"} if sleep_state is not None and sleep_state.asleep is not None else ())
    found = replace(observed, ray=view, before=before, given_back=given_back)
    return Case(found, observed.service.spec.models[0], pods, None)


@pytest.mark.parametrize(
    ("check", "found", "state"),
    [
        ("asleep", case(sleep_state=SLEEPING), ModelState.ASLEEP),
        ("without_cluster", case(ready=False), ModelState.STARTING),
        ("without_cluster", case(active="", pods=()), ModelState.PENDING),
        ("upgrading", case(pending="chat-bbbbb", proven=True), ModelState.READY),
        ("upgrading", case(pending="chat-bbbbb"), ModelState.STARTING),
        ("application_failed", case(application="DEPLOY_FAILED"), ModelState.FAILED),
        ("deployment_failed", case(deployment="UNHEALTHY"), ModelState.FAILED),
        ("assess_waking_model", case(sleep_state=WAKING, pods=(UNPLACED,)), ModelState.STARTING),
        ("assess_waking_model", case(sleep_state=WAKING, pods=(PLACED,)), ModelState.STARTING),
        ("healthy", case(proven=True), ModelState.READY),
        ("healthy", case(), ModelState.STARTING),
        ("scaled_by_serve", case(proven=True, deployment="UPSCALING"), ModelState.READY),
        ("answered_early", case(proven=True, deployment="UPDATING", message="Starting"), ModelState.STARTING),
        ("restarting", case(proven=True, deployment="UPDATING"), ModelState.STARTING),
        ("changing", case(deployment="UPDATING"), ModelState.STARTING),
    ],
)
def test_first_matching_check_returns_expected_state(check: str, found: Case, state: ModelState) -> None:
    judged = getattr(model_checks, check)(found)
    assert judged is not None
    assert judged.state is state
    assert model_checks.check(found) == judged, "none of those before it has one"


def test_only_last_check_applies_to_updating_model() -> None:
    plain = case(deployment="UPDATING")
    assert [each.__name__ for each in CHECKS if each(plain) is not None] == ["changing"]


def test_waking_model_is_probed_when_all_pods_of_replica_have_nodes() -> None:
    one = case(sleep_state=WAKING, pods=(PLACED,))
    model = one.model.model_copy(update={"parallelism": Parallelism(tensor=1, pipeline=2)})
    half = replace(one, model=model)
    assert not model_checks.check(half).ask
    assert model_checks.check(replace(half, pods=(PLACED, PLACED))).ask


def test_model_without_deployment_is_starting() -> None:
    found = case()
    empty = replace(found.ray, application=Application("DEPLOYING", "", {}))
    found = replace(found, snapshot=replace(found.snapshot, ray=empty))
    assert model_checks.not_deployed(found) == Judgement(ModelState.STARTING, None)
    assert model_checks.not_deployed(case()) is None


def test_answering_model_stays_ready_when_numbers_change() -> None:
    found = case(proven=True, deployment="UPDATING")
    later = replace(found.ray, generation=found.ray.generation + 1)
    found = replace(found, snapshot=replace(found.snapshot, ray=later))
    judged = model_checks.numbers_changed(found)
    assert judged is not None
    assert (judged.state, judged.answering) == (ModelState.READY, True)
    assert model_checks.numbers_changed(case(proven=True)) is None


def test_waking_model_is_probed_when_its_pod_has_node() -> None:
    def requested(*pods: Any) -> bool:
        judged = model_checks.assess_waking_model(case(sleep_state=WAKING, pods=pods))
        assert judged is not None
        return judged.ask

    assert [requested(), requested(UNPLACED), requested(PLACED), requested(READY)] == [
        False,
        False,
        True,
        True,
    ]
