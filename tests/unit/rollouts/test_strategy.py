"""Choice of the strategy for a change, and the reason for it."""

from dataclasses import replace

import pytest

from daybreak.api.gates.rollout import RolloutStrategy
from daybreak.rollouts.strategy import Change, Surroundings, choose

AUTO, IN_PLACE = RolloutStrategy.AUTO, RolloutStrategy.IN_PLACE
BLUE_GREEN, REPLACE = RolloutStrategy.BLUE_GREEN, RolloutStrategy.REPLACE
PODS = Change(pods=True, restarts=True)
ARGUMENTS = Change(pods=False, restarts=True)
ROOMY = Surroundings(serving=True, holds=True, crowded="")
FULL = replace(ROOMY, crowded="model m needs 1 nvidia.com/gpu for a pod, and at most 0 are free on one node")
UNSEEN = replace(ROOMY, crowded=None)
DOWN = replace(ROOMY, serving=False)
ALONE = replace(ROOMY, holds=False)
APART = replace(ROOMY, apart="gateways ask for one model at a time")


@pytest.mark.parametrize(
    ("requested", "change", "around", "chosen"),
    [
        (AUTO, ARGUMENTS, FULL, IN_PLACE),
        (AUTO, PODS, ROOMY, BLUE_GREEN),
        (AUTO, PODS, FULL, REPLACE),
        (AUTO, PODS, UNSEEN, BLUE_GREEN),
        (AUTO, PODS, DOWN, REPLACE),
        (AUTO, PODS, ALONE, BLUE_GREEN),
        (IN_PLACE, ARGUMENTS, FULL, IN_PLACE),
        (IN_PLACE, PODS, ROOMY, None),
        (BLUE_GREEN, ARGUMENTS, ROOMY, IN_PLACE),
        (BLUE_GREEN, PODS, FULL, BLUE_GREEN),
        (BLUE_GREEN, PODS, DOWN, REPLACE),
        (BLUE_GREEN, PODS, APART, REPLACE),
        (AUTO, PODS, APART, REPLACE),
        (AUTO, PODS, replace(APART, holds=False), BLUE_GREEN),
        (REPLACE, ARGUMENTS, ROOMY, REPLACE),
        (REPLACE, PODS, ROOMY, REPLACE),
        (REPLACE, PODS, ALONE, None),
    ],
)
def test_choose_returns_expected_strategy_with_a_reason(
    requested: RolloutStrategy, change: Change, around: Surroundings, chosen: RolloutStrategy | None
) -> None:
    road = choose(requested, change, around, back=False)
    assert road.strategy is chosen
    assert road.reason


def test_reason_for_replace_states_the_free_capacity() -> None:
    assert "at most 0 are free on one node" in choose(AUTO, PODS, FULL, back=False).reason


def test_reason_uses_the_wording_of_the_environment() -> None:
    one_more = replace(ROOMY, second="one more pod")
    assert choose(AUTO, PODS, one_more, back=False).reason == "capacity is free for one more pod"
    assert choose(AUTO, PODS, APART, back=False).reason == APART.apart


@pytest.mark.parametrize(("requested", "chosen"), [(AUTO, None), (REPLACE, None), (BLUE_GREEN, BLUE_GREEN)])
def test_rollout_that_fits_no_node_is_not_started_unless_blue_green(
    requested: RolloutStrategy, chosen: RolloutStrategy | None
) -> None:
    nowhere = replace(ROOMY, misfit="model m: a replica needs 16 nvidia.com/gpu on one node")
    road = choose(requested, PODS, nowhere, back=False)
    assert road.strategy is chosen
    if chosen is None:
        assert "16 nvidia.com/gpu" in road.reason


@pytest.mark.parametrize("requested", RolloutStrategy)
@pytest.mark.parametrize("change", [PODS, ARGUMENTS])
@pytest.mark.parametrize("around", [ROOMY, FULL, DOWN, ALONE, replace(ROOMY, misfit="nowhere")])
def test_rollback_is_never_rejected(requested: RolloutStrategy, change: Change, around: Surroundings) -> None:
    assert choose(requested, change, around, back=True).strategy is not None
