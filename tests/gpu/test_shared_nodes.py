"""Nodes of eight GPUs that Daybreak shares with pods of other teams.

Simulated besides the parts that `conftest.py` names: Ray's autoscaler, which deletes pods of groups at zero.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.admin import Admin, eventually
from tests.api.playing.words import PATIENCE
from tests.gpu.exact import NAME, Exact, gate
from tests.gpu.looks import GPU, TOLERATED, node_of, overbooked, placed, read_message
from tests.gpu.nodes import Nodes, h100

pytestmark = [pytest.mark.xdist_group("gpu-turns"), pytest.mark.usefixtures("gated", "serve_by_pods")]

PATIENT = {"afterIdle": "1h", "minAwake": "1s"}
"""Sleep settings of a model that no timer puts to sleep during a test."""


@pytest.fixture
def both(admin: Admin, answers: Path, traffic: Path) -> tuple[Exact, Exact]:
    """Return two services of one GPU each."""
    one, two = (Exact(admin, answers, traffic, name) for name in ("one", "two"))
    return one, two


def shared(name: str) -> Any:
    """Return a node of eight GPUs that only the pods of these tests use."""
    return h100(name, 8, **{NAME: "yes"})


def notebook(name: str, gpus: int) -> dict[str, Any]:
    """Return a pod of another team."""
    amounts = {GPU: str(gpus), "cpu": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {NAME: "yes"},
            "tolerations": TOLERATED,
            "containers": [
                {"name": "other", "image": "other", "resources": {"requests": amounts, "limits": amounts}}
            ],
        },
    }


@pytest.fixture
def notebooks(admin: Admin) -> Iterator[Callable[[str, int], None]]:
    """Create notebooks with a number of GPUs, wait for their nodes, and delete them after the test."""
    made: list[str] = []

    def create(name: str, gpus: int) -> None:
        admin.create(notebook(name, gpus))
        made.append(name)
        eventually(f"{name} has a node", lambda: node_of(admin.get("Pod", name)))

    yield create
    for name in made:
        if admin.get("Pod", name) is not None:
            admin.delete("Pod", name)


def test_an_idle_model_yields_on_a_node_that_notebooks_fill(
    both: tuple[Exact, Exact], nodes: Nodes, notebooks: Callable[[str, int], None], admin: Admin
) -> None:
    nodes.add(shared("shared"))
    notebooks("notebook-1", 4)
    notebooks("notebook-2", 3)
    one, two = both
    one.make(PATIENT)
    one.opens()
    one.gateways(idle=60)
    two.make(PATIENT)
    two.gateways(held=1)
    two.opens()
    one.reaches("asleep", lambda status: status.get("sleepDepth") == "Workers")
    placed(admin, "two", 1)
    assert overbooked(admin) == []


def test_idle_model_stays_awake_if_its_yield_frees_too_few_gpus(
    both: tuple[Exact, Exact], nodes: Nodes, notebooks: Callable[[str, int], None], admin: Admin
) -> None:
    """A model of four GPUs, and an idle one of one GPU next to a notebook."""
    nodes.add(shared("shared"))
    notebooks("notebook", 6)
    one, two = both
    one.make(PATIENT)
    one.opens()
    one.gateways(idle=60)
    two.make(PATIENT, parallelism={"tensor": 4})
    two.gateways(held=1)
    two.reaches("in the queue", lambda status: gate(status).get("acceleratorQueue", {}).get("position"))
    read_message(admin, "two", "Active", "False", "no model can free enough", reason="WaitingForAccelerators")
    time.sleep(2 * PATIENCE.total_seconds())
    assert one.is_open
    admin.delete("Pod", "notebook")
    two.opens()
    assert one.is_open, "enough is free beside it"


def test_idle_model_yields_if_waiting_model_lacks_cpu_cores(
    both: tuple[Exact, Exact], nodes: Nodes, admin: Admin
) -> None:
    nodes.add(shared("shared"))
    [offers] = [each for each in admin.list("Node") if each["metadata"]["name"] == "shared"]
    cores = int(offers["status"]["allocatable"]["cpu"])
    one, two = both
    most = {"cpu": str(cores - 8), "memory": "1Gi"}
    one.make(PATIENT, resources=most)
    one.opens()
    one.gateways(idle=60)
    two.make(PATIENT, resources=most)
    two.gateways(held=1)
    two.opens()
    one.reaches("asleep", lambda status: status.get("sleepDepth") == "Workers")
    placed(admin, "two", 1)
