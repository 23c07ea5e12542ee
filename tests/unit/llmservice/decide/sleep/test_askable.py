"""Models of a service that are available to clients: the gateway lists them, and answers 404 for others."""

from typing import Any

import pytest

from daybreak.api.gates.gate_status import MAX_GATES
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    GPU_MODEL,
    HEAD,
    OTHER_MODEL,
    WORKER,
    World,
    manifest,
    pod,
    ray_service,
    ray_status,
    running,
)
from tests.unit.llmservice.decide.scenes.sleeping import IDLE, LONG, asleep, gate, up, view
from tests.unit.llmservice.decision import Decision

RENAMED = {**CPU_MODEL, "name": "small"}


def models(decision: Decision) -> list[str]:
    """Return the models that a decision sends to the gateways, and the handling of requests to them."""
    assert decision.status.gate is not None
    return [f"{gate.name} {gate.state}" for gate in decision.status.gate.models]


def edit(world: World, *listed: Any) -> None:
    """Change the models of a service that may sleep."""
    world.edit(manifest(*listed, sleep={"afterIdle": "10m"}))


def beside(world: World, *listed: Any) -> Any:
    """Return the RayService while a second cluster starts alongside the first."""
    status = ray_status(active="chat-aaaaa", pending="chat-bbbbb", ready=True, generation=2)
    return ray_service(manifest(*listed), generation=2, status=status)


def test_renamed_model_keeps_old_name_until_new_cluster_takes_over() -> None:
    world = up()
    edit(world, RENAMED)
    assert models(world.step()) == ["small Closed", "tiny Open"]
    assert models(world.step(ray_service=beside(world, RENAMED))) == ["small Closed", "tiny Open"]
    both = (
        HEAD,
        WORKER,
        pod("h-2", model=None, cluster="chat-bbbbb"),
        pod("w-2", cluster="chat-bbbbb", model="small"),
    )
    switched = running(world, active="chat-bbbbb", generation=2)
    assert models(world.step(ray_service=switched, pods=both)) == ["small Closed"]
    decision = world.step(answers={"small": True})
    assert (gate(decision)[0], models(decision)) == ("Awake", ["small Open"])
    assert models(world.step()) == ["small Open"]


def test_renamed_model_keeps_old_name_if_change_fits_on_no_node() -> None:
    world = up()
    edit(world, {**GPU_MODEL, "name": "small", "parallelism": {"tensor": 16}})
    for _ in range(3):
        decision = world.step(after=600, gateway=view())
        assert (decision.status.phase, models(decision)) == ("Failed", ["small Failed", "tiny Open"])


def test_renamed_model_keeps_old_name_if_spec_is_invalid() -> None:
    world = up()
    edit(world, {**RENAMED, "accelerator": {"kind": "abacus"}})
    for _ in range(3):
        decision = world.step(after=600, gateway=view())
        assert (decision.status.phase, models(decision)) == ("Failed", ["tiny Open"])


def test_requests_to_an_appended_model_are_held_until_it_answers() -> None:
    world = up()
    edit(world, CPU_MODEL, OTHER_MODEL)
    assert models(world.step()) == ["tiny Open", "other Closed"]
    pods = (HEAD, WORKER, pod("w-2", model="other"))
    deploying = running(world, generation=2, models={"tiny": "HEALTHY", "other": "UPDATING"}, app="DEPLOYING")
    assert models(world.step(ray_service=deploying, pods=pods)) == ["tiny Open", "other Closed"]
    both = running(world, generation=2)
    decision = world.step(after=60, ray_service=both, answers={"tiny": True, "other": True})
    assert (gate(decision)[0], models(decision)) == ("Awake", ["tiny Open", "other Open"])


def test_sleeping_service_lists_only_models_of_new_spec() -> None:
    world = asleep()
    edit(world, RENAMED)
    decision = world.step(after=LONG, gateway=IDLE)
    assert (gate(decision), models(decision)) == (("Asleep", "Closed", "Workers"), ["small Closed"])


@pytest.mark.parametrize("listed", [None, "tiny", [], [7], ["old"], [{"name": "old", "state": "Open"}]])
def test_malformed_or_foreign_gates_in_status_are_ignored(listed: Any) -> None:
    world = up()
    world.observed.manifest["status"]["gate"]["models"] = listed
    edit(world, RENAMED)
    assert models(world.step()) == ["small Closed"]


def test_number_of_gates_is_limited_to_maximum_of_status() -> None:
    world = up()
    gates = world.observed.manifest["status"]["gate"]["models"]
    world.observed.manifest["status"]["gate"]["models"] = [
        {**gates[0], "name": f"old-{number}"} for number in range(MAX_GATES)
    ]
    edit(world, CPU_MODEL, OTHER_MODEL)
    assert len(models(world.step())) == MAX_GATES
