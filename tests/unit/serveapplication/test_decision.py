"""Decisions on an application, and the status that reports them."""

from datetime import timedelta
from typing import Any

import pytest

from daybreak.gates.traffic import Traffic
from daybreak.kinds.serveapplication.observe.observed import Observed
from tests.unit.serveapplication.applications import (
    ASKED,
    HELD,
    NOW,
    QUIET,
    application,
    live,
    observe,
)
from tests.unit.serveapplication.decision import Decision, decide

LATER = NOW + timedelta(hours=1)


def conditions(decision: Decision) -> dict[str, tuple[str, str]]:
    """Return the status and reason of each condition."""
    return {each.type: (each.status, each.reason) for each in decision.status.conditions}


def read_message(decision: Decision) -> dict[str, Any]:
    """Return the status as it is written."""
    return decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)


def after(before: Decision, ray: dict[str, Any] | None, traffic: Traffic = ASKED, **more: Any) -> Decision:
    """Return the next decision."""
    return decide(observe(read_message(before), ray, traffic=traffic, **more))


@pytest.fixture
def awake() -> Decision:
    """Return the decision on a running application."""
    return after(decide(observe(traffic=ASKED)), live(application()))


def test_first_decision_creates_application_with_closed_gate() -> None:
    found = decide(observe(traffic=ASKED))
    assert found.apply
    assert conditions(found)["Ready"] == ("Unknown", "Progressing")
    assert found.status.gate is not None
    assert found.status.gate.models[0].state == "Closed"
    assert found.status.gate.backends == []


def test_running_application_is_ready_with_open_gate(awake: Decision) -> None:
    assert conditions(awake)["Ready"] == ("True", "Serving")
    assert awake.status.gate is not None
    assert awake.status.gate.models[0].state == "Open"
    assert [each.cluster for each in awake.status.gate.backends] == ["pipeline-abcde"]
    assert awake.status.url == "http://pipeline.default.svc"


def test_status_is_unchanged_if_state_is_unchanged(awake: Decision) -> None:
    again = after(awake, live(application()), now=NOW + timedelta(minutes=1))
    assert read_message(again) == read_message(awake)


def test_idle_application_drains_sleeps_and_wakes_for_held_requests(awake: Decision) -> None:
    draining = after(awake, live(application()), QUIET, now=LATER)
    assert draining.status.phase == "Draining"
    asleep = after(draining, live(application()), QUIET, now=LATER)
    assert asleep.status.phase == "Asleep"
    assert asleep.sleep_state is not None
    assert asleep.sleep_state.asleep == "Cluster"
    assert conditions(asleep)["Ready"] == ("True", "Asleep")
    assert asleep.status.probed_configuration is None
    waking = after(asleep, None, HELD, now=LATER)
    assert waking.status.phase == "Waking"
    assert conditions(waking)["Ready"] == ("True", "Waking"), "requests are held"


def test_forced_sleep_releases_whole_cluster() -> None:
    found = decide(observe(traffic=QUIET, spec={"sleep": None, "state": "Asleep"}))
    assert found.sleep_state is not None
    assert found.sleep_state.asleep == "Cluster"


def test_application_stays_ready_during_change_in_place(awake: Decision) -> None:
    changing = live(application(), "DEPLOYING")
    changing["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    found = after(awake, changing)
    assert conditions(found)["Ready"] == ("True", "Serving")
    assert found.status.phase == "Updating"


def test_application_that_has_never_run_in_cluster_is_not_ready(awake: Decision) -> None:
    other = live(application(), "DEPLOYING")
    other["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    other["status"]["activeServiceStatus"]["rayClusterName"] = "pipeline-other"
    assert conditions(after(awake, other))["Ready"][0] != "True"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "Deploying app 'app' failed with exception:\nTraceback (most recent call last):\n"
            "ModuleNotFoundError: No module named 'pipelines'",
            "ModuleNotFoundError: No module named 'pipelines'",
        ),
        (
            "Deploying app 'app' failed with exception:\nTraceback (most recent call last):\n"
            "AttributeError: module 'pipeline' has no attribute 'bulid'",
            "has no attribute 'bulid'",
        ),
        (
            "Traceback (most recent call last):\n"
            "ValueError: Deployment 'Modd' does not exist. Available: ['Mood', 'Length']",
            "Deployment 'Modd' does not exist. Available: ['Mood', 'Length']",
        ),
    ],
)
def test_deploy_failure_is_reported_with_error_of_code(message: str, words: str) -> None:
    found = after(decide(observe(traffic=ASKED)), live(application(), "DEPLOY_FAILED", message))
    assert conditions(found)["Stalled"] == ("True", "ModelFailed")
    assert words in next(each.message for each in found.status.conditions if each.type == "Ready")
    assert found.status.gate is not None
    assert found.status.gate.models[0].state == "Failed"


def test_failed_replica_start_is_reported_without_stalled_condition() -> None:
    starting = live(application(), "DEPLOYING")
    deployments = starting["status"]["activeServiceStatus"]["applicationStatuses"]["app"]
    deployments["serveDeploymentStatuses"]["Length"] = {
        "status": "UPDATING",
        "message": "A replica failed to start with exception. Retrying 2 more times. Error:\n"
        "Traceback (most recent call last):\nKeyError: 'words'",
    }
    found = after(decide(observe(traffic=ASKED)), starting)
    assert conditions(found)["Stalled"][0] == "False", "Serve tries again"
    assert "KeyError: 'words'" in next(
        each.message for each in found.status.conditions if each.type == "Ready"
    )


def test_no_objects_are_created_without_kuberay() -> None:
    found = decide(observe(traffic=ASKED, kuberay_installed=False))
    assert not found.apply
    assert conditions(found)["Stalled"] == ("True", "KubeRayNotInstalled")


def test_application_without_gateway_has_no_sleep_state() -> None:
    one: Observed = observe(ray=live(application()), traffic=None)
    found = decide(one)
    assert found.sleep_state is None
    assert found.status.gate is None
    assert conditions(found)["Ready"] == ("True", "Serving")


def test_invalid_spec_is_reported_and_not_applied() -> None:
    found = decide(observe(traffic=ASKED, spec={"importPath": "no colon"}))
    assert not found.apply
    assert conditions(found)["Stalled"] == ("True", "InvalidSpec")
