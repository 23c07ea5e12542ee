"""Turns on nodes that other pods share, and models that lack cores or memory besides accelerators."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from daybreak.scheduling.claim import Amounts, Claim, Turn
from daybreak.scheduling.fleet import Fleet
from daybreak.scheduling.nodes import NodeCapacity
from daybreak.scheduling.replica_size import DEVICE_CLAIMS
from daybreak.scheduling.turn_words import waiting
from daybreak.scheduling.turns import turns
from tests.unit.scheduling.claims import GPU, NOW, gives_way, holder, lost, waiter
from tests.unit.scheduling.test_turns_of_cores import stands, wants


def amounts(gpus: float = 0, cores: float = 0, gib: float = 0) -> dict[str, Decimal]:
    """An amount of each resource that is not 0."""
    found = {GPU: gpus, "cpu": cores, "memory": gib}
    return {name: Decimal(str(amount)) for name, amount in found.items() if amount}


def asks(owner: str, gpus: int = 1, cores: float = 0, **more: Any) -> Claim:
    """Return the claim of a model whose pod of the given size cannot be scheduled."""
    return replace(waiter(owner, devices=gpus, **more), needs=amounts(gpus, cores))


def has(owner: str, idle: float | None = 60, node: str = "a", gpus: int = 1, cores: float = 0) -> Claim:
    """Return an awake model; `idle` is None while it has requests."""
    return replace(holder(owner, idle, **{node: gpus}), gives={node: amounts(gpus, cores)})


def decided(
    *claims: Claim,
    foreign: Mapping[str, Amounts] | None = None,
    counted: Collection[str] | None = "ab",
    **nodes: Amounts,
) -> dict[str, Turn]:
    """Return turns by the workload's own name. `foreign` is used by pods without a claim."""
    used: dict[str, dict[str, Decimal]] = {}
    rows = [*(foreign or {}).items(), *(row for claim in claims for row in claim.gives.items())]
    if counted is None:
        rows = []
    for node, some in rows:
        own = used.setdefault(node, {})
        for name, amount in some.items():
            own[name] = own.get(name, Decimal(0)) + amount
    offers = [NodeCapacity(name, {}, (), dict(offer), False) for name, offer in nodes.items()]
    known = None if counted is None else frozenset(counted) & nodes.keys()
    fleet = Fleet(offers, {}, None if counted is None else used, known)
    return {owner.removeprefix("default/"): turn for (owner, _), turn in turns(claims, fleet, NOW).items()}


@pytest.mark.parametrize("size", [1, 2, 8])
@pytest.mark.parametrize("counted", ["a", ""])
def test_an_idle_model_yields_on_a_node_full_of_other_pods(size: int, counted: str) -> None:
    foreign = {"a": amounts(size - 1)} if counted else {}
    found = decided(asks("w"), has("idle"), foreign=foreign, counted=counted, a=amounts(size))
    assert gives_way(found) == {"idle": "default/w"}


def test_no_model_yields_before_the_pods_of_others_are_counted() -> None:
    """The count may show that a yield does not help. It arrives within moments."""
    claims = (asks("w", 4), has("idle"))
    assert gives_way(decided(*claims, counted=None, a=amounts(8))) == {}
    assert gives_way(decided(*claims, foreign={"a": amounts(6)}, a=amounts(8))) == {}
    assert gives_way(decided(*claims, foreign={"a": amounts(4)}, a=amounts(8))) == {"idle": "default/w"}


def test_pods_of_others_are_subtracted_from_free_accelerators() -> None:
    two, idle = asks("w", 2), [has("one", 90), has("two", 60)]
    assert set(gives_way(decided(two, *idle, foreign={"a": amounts(6)}, a=amounts(8)))) == {"one", "two"}
    assert set(gives_way(decided(two, *idle, foreign={"a": amounts(5)}, a=amounts(8)))) == {"one"}
    found = decided(asks("w", 4), *idle, foreign={"a": amounts(5)}, a=amounts(8))
    assert gives_way(found) == {}, "both together are not enough"
    assert found["w"].hopeless


def test_model_yields_on_node_where_yield_frees_enough() -> None:
    two = asks("w", 2)
    nodes = {"a": amounts(8), "b": amounts(8)}
    foreign = {"a": amounts(7), "b": amounts(6)}
    found = decided(two, has("long", 900), has("short", 5, "b"), foreign=foreign, **nodes)
    assert gives_way(found) == {"short": "default/w"}
    assert not found["w"].hopeless


def test_model_that_cannot_yield_does_not_block_other_yields() -> None:
    stays = replace(has("stays", 900), yields_at=None)
    found = decided(asks("w"), stays, has("idle", 5), foreign={"a": amounts(6)}, a=amounts(8))
    assert gives_way(found) == {"idle": "default/w"}


def test_a_model_that_holds_the_lacking_cores_yields() -> None:
    """One GPU is free, and no cores are."""
    wants_gpu = asks("w", 1, cores=4)
    node = {"a": amounts(4, cores=16)}
    foreign = {"a": amounts(2, cores=8)}
    small, large = has("small", 900, cores=2), stands("large", 5, a=amounts(cores=6))
    found = decided(wants_gpu, small, large, foreign=foreign, **node)
    assert gives_way(found) == {"large": "default/w"}, "cores of a model without accelerators"
    assert found["w"].lacks == ("cpu",)
    both = has("both", 5, cores=6)
    assert gives_way(decided(wants_gpu, both, foreign=foreign, **node)) == {"both": "default/w"}
    fewer = {"a": amounts(2, cores=4)}
    assert gives_way(decided(wants_gpu, both, foreign=fewer, **node)) == {}, "enough cores are free"


def test_missing_accelerators_and_cores_are_freed_by_several_models() -> None:
    found = decided(
        asks("w", 1, cores=6),
        has("gpu", 60, cores=1),
        stands("cores", 60, a=amounts(cores=7)),
        foreign={"a": amounts(3)},
        a=amounts(4, cores=8),
    )
    assert gives_way(found) == {"gpu": "default/w", "cores": "default/w"}


def test_no_model_yields_if_cores_stay_short_and_shortage_is_reported() -> None:
    found = decided(
        asks("w", 1, cores=12),
        has("idle", 900, cores=2),
        foreign={"a": amounts(1, cores=9)},
        a=amounts(4, 16),
    )
    assert gives_way(found) == {}
    turn = found["w"]
    assert (turn.lacks, turn.hopeless) == (("cpu",), True)
    message = waiting((), turn)
    assert message.startswith("queued for cpu at position 1; used by default/idle")
    assert message.endswith("pods outside the queue use so much that no model can free enough")


def test_wait_is_not_hopeless_if_busy_models_could_free_enough() -> None:
    found = decided(asks("w", 1, cores=12), has("busy", None, cores=8), a=amounts(4, 16))
    assert gives_way(found) == {}
    assert (found["w"].lacks, found["w"].hopeless) == (("cpu",), False)


def test_a_model_with_an_accelerator_yields_its_cores() -> None:
    found = decided(wants("w", 3), has("idle", 60, cores=3), counted="abc", a=amounts(4, 4, 8))
    assert gives_way(found) == {"idle": "default/w"}
    found = decided(wants("w", 3), has("idle", 60, cores=1), counted="abc", a=amounts(4, 4, 8))
    assert gives_way(found) == {}
    beside = stands("beside", 5, a=amounts(cores=3))
    found = decided(wants("w", 3), has("idle", 60, cores=3), beside, counted="abc", a=amounts(4, 6, 8))
    assert gives_way(found) == {"beside": "default/w"}, "it releases no accelerator"


def test_two_queues_share_one_yielding_model_for_same_cores() -> None:
    """The model that yields for one of them releases its cores for both, one after the other."""
    claims = [asks("gpu", 1, cores=3), wants("cores", 3), has("one", 90, cores=3), has("two", 60, cores=3)]
    found = decided(*claims, foreign={"a": amounts(1, 1)}, counted="abc", a=amounts(4, 8, 8))
    assert list(gives_way(found)) == ["one"]


def test_no_model_yields_while_leaving_model_frees_cores() -> None:
    leaving = replace(stands("leaving", None, a=amounts(cores=4)), leaving=True)
    idle = has("idle", 900, cores=4)
    found = decided(asks("w", 1, cores=4), leaving, idle, a=amounts(4, 8))
    assert gives_way(found) == {}


def test_idle_model_yields_cores_to_model_that_lost_a_pod() -> None:
    awake = replace(lost("awake"), needs=amounts(1, cores=4), nodes=frozenset("a"))
    idle = stands("idle", 60, a=amounts(cores=4))
    found = decided(awake, idle, a=amounts(2, cores=4))
    assert gives_way(found) == {"idle": "default/awake"}


def test_models_yield_cores_to_model_with_resource_claims() -> None:
    by_claim = replace(asks("w", 1), resource=DEVICE_CLAIMS, needs=amounts(cores=4))
    own = replace(has("own", 60), resource=DEVICE_CLAIMS, gives={"a": amounts(cores=1)})
    cores = stands("cores", 60, a=amounts(cores=3))
    found = decided(by_claim, own, cores, a=amounts(cores=4))
    assert gives_way(found) == {"own": "default/w", "cores": "default/w"}
