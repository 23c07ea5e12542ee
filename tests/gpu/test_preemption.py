"""Pods whose priority has the scheduler delete others': the gate of whom that meets is closed first.

Simulated besides the parts that `conftest.py` names: Ray's autoscaler, which deletes pods of groups at zero.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.admin import Admin
from tests.gpu.exact import NAME, Exact, gate
from tests.gpu.looks import overbooked, placed, pods
from tests.gpu.nodes import Nodes, h100

pytestmark = [pytest.mark.xdist_group("gpu-turns"), pytest.mark.usefixtures("gated")]

PATIENT = {"afterIdle": "1h", "minAwake": "1s"}
"""Sleep settings of a model that no timer puts to sleep during a test."""


@pytest.fixture
def preempting(exact: Exact) -> Iterator[str]:
    """Yield a class of pods for which the scheduler deletes others."""
    name = f"preempting-{exact.admin.namespace}"
    about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    exact.admin.create({**about, "value": 1000})
    yield name
    exact.admin.delete("PriorityClass", name)


@pytest.fixture
def other(exact: Exact, answers: Path, traffic: Path) -> Exact:
    """Return a service that needs the same GPU."""
    return Exact(exact.admin, answers, traffic, "other")


def urgently(priority_class: str) -> dict[str, Any]:
    """Return a model whose pods have that priority class."""
    return {"podTemplate": {"spec": {"priorityClassName": priority_class}}}


@pytest.mark.parametrize("sleep", [PATIENT, PATIENT | {"yield": "Never"}, None])
def test_running_requests_finish_before_higher_priority_pods_are_created(
    exact: Exact, other: Exact, preempting: str, sleep: dict[str, str] | None
) -> None:
    exact.make(sleep)
    exact.opens()
    [worker] = placed(exact.admin, NAME, 1)
    exact.gateways(in_flight=1)
    other.make(PATIENT, **urgently(preempting))
    other.gateways(held=1)
    exact.reaches("closed", lambda status: gate(status)["state"] == "Closed")
    other.reaches("told", lambda status: gate(status).get("queuedBehind"))
    time.sleep(3)
    assert [pod["metadata"]["uid"] for pod in pods(exact.admin, NAME)] == [worker["metadata"]["uid"]]
    assert pods(other.admin, other.name) == [], "the scheduler would preempt for them at once"
    # It has been answered; then another client sends a request, which is held.
    exact.gateways(held=1)
    other.opens()
    placed(other.admin, other.name, 1)
    exact.reaches("waits", lambda status: gate(status)["state"] == "Closed")
    assert preempted(exact.admin) == []
    # It has its GPU again when the other one needs it no more.
    other.gateways(idle=60)
    exact.opens()
    assert overbooked(exact.admin) == []


def test_higher_priority_pod_preempts_no_pod_if_another_gpu_is_free(
    exact: Exact, other: Exact, preempting: str, nodes: Nodes
) -> None:
    nodes.add(h100("h100-exact-2", 1, **{NAME: "yes"}))
    exact.make(PATIENT)
    exact.opens()
    exact.gateways(in_flight=1)
    other.make(PATIENT, **urgently(preempting))
    other.gateways(held=1)
    other.opens()
    assert exact.is_open
    assert preempted(exact.admin) == []


def preempted(admin: Admin) -> list[str]:
    """Return the pods that the scheduler has deleted for others."""
    return [each["regarding"]["name"] for each in admin.list("Event") if each["reason"] == "Preempted"]
