"""Which models of a service can be asked for: the gateway lists them, and says 404 of others."""

from typing import Any

import pytest

from daybreak.api.gates.gate_status import MAX_ASKABLE
from daybreak.kinds.llmservice.decide.decision import Decision
from tests.unit.llmservice.decide.scenes import (
    CPU_MODEL,
    GPU_MODEL,
    HEAD,
    OTHER_MODEL,
    WORKER,
    Manifest,
    World,
    manifest,
    pod,
    ray_service,
    ray_status,
    running,
)
from tests.unit.llmservice.decide.sleeping import IDLE, LONG, asleep, gate, up, view

RENAMED = {**CPU_MODEL, "name": "small"}


def models(decision: Decision) -> list[str] | None:
    """The names that a decision gives to the gateways."""
    assert decision.status.gate is not None
    return decision.status.gate.models


def edit(world: World, *listed: Any) -> None:
    """Change the models of a service that may sleep."""
    world.edit(manifest(*listed, sleep={"afterIdle": "10m"}))


def beside(world: World, *listed: Any) -> Any:
    """The RayService while a second cluster comes up beside the first."""
    status = ray_status(active="chat-aaaaa", pending="chat-bbbbb", ready=True, generation=2)
    return ray_service(manifest(*listed), generation=2, status=status)


def test_a_renamed_model_keeps_its_name_until_the_new_cluster_has_taken_over() -> None:
    world = up()
    edit(world, RENAMED)
    assert models(world.step()) == ["tiny"]
    assert models(world.step(ray_service=beside(world, RENAMED))) == ["tiny"]
    both = (
        HEAD,
        WORKER,
        pod("h-2", model=None, cluster="chat-bbbbb"),
        pod("w-2", cluster="chat-bbbbb", model="small"),
    )
    switched = running(world, active="chat-bbbbb", generation=2)
    assert models(world.step(ray_service=switched, pods=both)) == ["small"]
    decision = world.step(answers={"small": True})
    assert (gate(decision)[0], models(decision)) == ("Awake", ["small"])
    assert models(world.step()) == ["small"]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({**GPU_MODEL, "name": "small", "parallelism": {"tensor": 16}}, id="fits nowhere"),
        pytest.param({**RENAMED, "accelerator": {"kind": "abacus"}}, id="cannot be read"),
    ],
)
def test_it_keeps_its_name_where_nothing_can_be_made_of_the_change(changed: Manifest) -> None:
    world = up()
    edit(world, changed)
    for _ in range(3):
        decision = world.step(after=600, gateway=view())
        assert (gate(decision)[:2], models(decision)) == (("Failed", "Open"), ["tiny"])


def test_an_appended_model_is_listed_when_it_answers() -> None:
    world = up()
    edit(world, CPU_MODEL, OTHER_MODEL)
    assert models(world.step()) == ["tiny"]
    pods = (HEAD, WORKER, pod("w-2", model="other"))
    deploying = running(world, generation=2, models={"tiny": "HEALTHY", "other": "UPDATING"}, app="DEPLOYING")
    assert models(world.step(ray_service=deploying, pods=pods)) == ["tiny"]
    both = running(world, generation=2)
    decision = world.step(after=60, ray_service=both, answers={"tiny": True, "other": True})
    assert (gate(decision)[0], models(decision)) == ("Awake", ["tiny", "other"])


def test_a_sleeping_service_has_the_models_of_its_spec() -> None:
    world = asleep()
    edit(world, RENAMED)
    decision = world.step(after=LONG, gateway=IDLE)
    assert (gate(decision)[1], models(decision)) == ("Closed", ["small"])


@pytest.mark.parametrize(
    ("listed", "expected"),
    [(None, ["tiny"]), ("tiny", ["small"]), ([], ["small"]), ([7], ["small"]), (["old"], ["old"])],
)
def test_names_that_somebody_else_has_written(listed: Any, expected: list[str]) -> None:
    """An operator from before wrote none, and then the models of the status say them."""
    world = up()
    world.seen.manifest["status"]["gate"]["models"] = listed
    edit(world, RENAMED)
    assert models(world.step()) == expected


def test_no_more_names_than_a_status_takes() -> None:
    world = up()
    world.seen.manifest["status"]["gate"]["models"] = [f"old-{number}" for number in range(MAX_ASKABLE)]
    edit(world, CPU_MODEL, OTHER_MODEL)
    assert len(models(world.step()) or ()) == MAX_ASKABLE
