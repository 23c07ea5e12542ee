"""Turns among workloads, each of which is observed separately."""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from daybreak.controller.asking.other_pods import MOST_NODES, OtherPods
from daybreak.controller.watching import turn_watch
from daybreak.controller.watching.booked_watch import BookedWatch
from daybreak.controller.watching.node_watch import NodeWatch
from daybreak.controller.watching.priority_watch import PriorityWatch
from daybreak.controller.watching.turn_watch import TOLD_SECONDS, Pods, TurnWatch
from daybreak.manifests.keys import OwnerKey
from daybreak.scheduling.claim import Claim, Turn
from daybreak.scheduling.nodes import Node
from daybreak.scheduling.pod_priority import PriorityClasses
from daybreak.scheduling.room import Booked
from daybreak.scheduling.turns import turns
from tests.unit.llmservice.decide.scenes.services import node
from tests.unit.scheduling.claims import NOW, holder, waiter
from tests.unit.scheduling.test_preempting import CLASSES, comer, gpus, stands
from tests.unit.scheduling.test_turns_of_cores import some, wants
from tests.unit.scheduling.test_turns_of_cores import stands as on_cores

IDLE, ASKED = OwnerKey("LLMService", "default", "idle"), OwnerKey("LLMService", "default", "asked")


class NoNodes:
    """Fake for nodes that the operator may not read."""

    def nodes(self) -> None:
        return None


@pytest.mark.parametrize(("node_wait", "gives_way"), [(0, "default/asked"), (30, "default/asked"), (90, "")])
def test_idle_model_yields_after_node_wait_has_passed(node_wait: int, gives_way: str) -> None:
    looked_at: list[OwnerKey] = []
    watch = TurnWatch(
        cast(NodeWatch, NoNodes()), lambda each, _: looked_at.append(each), timedelta(seconds=node_wait)
    )
    watch.turns(IDLE, [holder("idle", 3600, a=1)], NOW)
    turns = watch.turns(ASKED, [waiter("asked", waited=60)], NOW)
    assert looked_at == ([IDLE] if gives_way else [])
    assert turns["m"].look_again is not None
    found = watch.turns(IDLE, [holder("idle", 3600, a=1)], NOW)
    assert (found["m"].gives_way_to if found else "") == gives_way


def test_only_affected_waiting_workload_is_requeued_at_once() -> None:
    """An additional holder changes the waiting models' status, and not their decisions."""
    looked_at: dict[str, float] = {}
    watch = TurnWatch(
        cast(NodeWatch, NoNodes()), lambda each, after: looked_at.update({each.key.name: after})
    )
    for number in range(20):
        name = f"w{number:02}"
        watch.turns(OwnerKey("LLMService", "default", name), [waiter(name, waited=60 - number)], NOW)
    looked_at.clear()
    watch.turns(ASKED, [holder("asked", None, a=1)], NOW)
    assert len(looked_at) == 20
    assert looked_at.pop("w00") == 0, "it waits for somebody now"
    assert all(0 < after <= TOLD_SECONDS for after in looked_at.values())
    looked_at.clear()
    watch.turns(OwnerKey("LLMService", "default", "w00"), [], NOW)
    assert looked_at.pop("w01") == 0, "it comes first now"
    assert all(0 < after <= TOLD_SECONDS for after in looked_at.values())


def test_small_change_of_yield_time_does_not_repeat_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decided: list[int] = []

    def noted(claims: Collection[Claim], *rest: Any) -> dict[tuple[str, str], Turn]:
        decided.append(len(claims))
        return turns(claims, *rest)

    monkeypatch.setattr(turn_watch, "turns", noted)
    watch = TurnWatch(cast(NodeWatch, NoNodes()), lambda *_: None)
    watch.turns(ASKED, [waiter("asked")], NOW)
    for tenths in (0, 1, 2, 9):
        watch.turns(IDLE, [holder("idle", 100 + tenths / 10, a=1)], NOW)
    assert decided == [1, 2]
    watch.turns(IDLE, [holder("idle", 101, a=1)], NOW)
    assert decided == [1, 2, 2], "by a second in all"
    watch.turns(IDLE, [holder("idle", 101, a=2)], NOW)
    assert decided == [1, 2, 2, 2]


class PlayedPriorities:
    """Fake with the PriorityClasses of `test_preempting.py`."""

    def classes(self) -> PriorityClasses:
        return CLASSES


class PlayedBooked:
    """Fake in which workloads' pods use one GPU of a node, and two CPUs of another one."""

    def booked(self) -> Booked:
        return {"a": gpus(1), "b": some(2)}


class PlayedOthers:
    """Fake for the pods outside Daybreak, with a delayed answer."""

    def __init__(self) -> None:
        self.held: Booked | None = None
        self.requested: list[set[str]] = []
        self.then: Callable[[], None] = lambda: None

    def known(self, nodes: Collection[str], then: Callable[[], None]) -> Booked | None:
        self.requested.append(set(nodes))
        self.then = then
        return self.held


class OneNode:
    """Fake with a GPU node, and two others; each has 64 CPUs."""

    def nodes(self) -> tuple[Node, ...]:
        return NODES


NODES = (node("a", gpus=1), node("b"), node("c"))


def test_only_nodes_with_used_cpus_are_queried_before_model_yields_cpus() -> None:
    """The operator queries only nodes with other pods' CPUs.

    Until the answer no model leaves, since that might not help.
    """
    looked_at: list[OwnerKey] = []
    others = PlayedOthers()
    pods = Pods(
        cast(PriorityWatch, PlayedPriorities()), cast(BookedWatch, PlayedBooked()), cast(OtherPods, others)
    )
    watch = TurnWatch(cast(NodeWatch, OneNode()), lambda each, _: looked_at.append(each), pods=pods)
    watch.turns(IDLE, [on_cores("idle", 60, b=some(2))], NOW)
    waits = replace(wants("asked", 4), nodes=frozenset("ab"))
    assert watch.turns(ASKED, [waits], NOW)["m"].place == 1
    assert others.requested[-1] == {"b"}
    assert looked_at == []
    others.held = {"b": some(61)}
    others.then()
    watch.turns(ASKED, [waits], NOW)
    assert watch.turns(IDLE, [on_cores("idle", 60, b=some(2))], NOW).get("m", Turn()).gives_way_to == ""
    others.held = {"b": some(60)}
    others.then()
    watch.turns(ASKED, [waits], NOW)
    assert watch.turns(IDLE, [on_cores("idle", 60, b=some(2))], NOW)["m"].gives_way_to == "default/asked"


def test_preemption_waits_until_resources_of_other_pods_are_known() -> None:
    looked_at: list[OwnerKey] = []
    others = PlayedOthers()
    pods = Pods(
        cast(PriorityWatch, PlayedPriorities()),
        cast(BookedWatch, PlayedBooked()),
        cast(OtherPods, others),
    )
    watch = TurnWatch(cast(NodeWatch, OneNode()), lambda each, _: looked_at.append(each), pods=pods)
    watch.turns(IDLE, [stands("idle", a=1)], NOW)
    assert others.requested == [], "nobody wants anything"
    # All pods have the same priority while no model has a class.
    assert watch.turns(ASKED, [comer("asked", "")], NOW) == {}
    turn = watch.turns(ASKED, [comer("asked")], NOW)["m"]
    assert (turn.after, looked_at) == (("default/idle",), [])
    others.held = {}
    others.then()
    assert looked_at == [ASKED]
    assert watch.turns(ASKED, [comer("asked")], NOW)["m"].after
    assert watch.turns(IDLE, [stands("idle", a=1)], NOW)["m"].preempted


def test_accelerator_wait_is_measured_per_resource() -> None:
    def measured(resource: str) -> tuple[float, float]:
        labels = {"resource": resource}
        found = (
            REGISTRY.get_sample_value(f"daybreak_accelerator_wait_seconds_{what}", labels)
            for what in ("count", "sum")
        )
        return tuple(value or 0.0 for value in found)  # type: ignore[return-value]

    mig, gpu = "nvidia.com/mig-1g.10gb", "nvidia.com/gpu"
    before = measured(gpu)
    watch = TurnWatch(cast(NodeWatch, NoNodes()), lambda *_: None)
    waits = replace(waiter("asked", waited=60), resource=mig)
    watch.turns(ASKED, [waits], NOW)
    watch.turns(ASKED, [replace(waits, no_room_since=None, holds={"a": 1})], NOW + timedelta(seconds=30))
    assert measured(mig) == (1, 90)
    assert measured(gpu) == before


class SomeNodes:
    """Fake with nodes of eight GPUs each."""

    def __init__(self, *names: str) -> None:
        self._nodes = tuple(node(name, gpus=8) for name in names)

    def nodes(self) -> tuple[Node, ...]:
        return self._nodes


class Taken:
    """Pods of workloads hold seven GPUs of the last node: one of the idle model, and six of other workloads.

    The other workloads have no claim, such as a benchmark, a batch that Kueue admits, or a service whose spec
    became invalid.
    """

    def booked(self) -> Booked:
        return {"z": gpus(7)}


@pytest.mark.parametrize(("foreign", "gives_way"), [(1, "default/asked"), (0, "")])
def test_pods_without_claim_count_and_candidate_nodes_are_queried_first(foreign: int, gives_way: str) -> None:
    """More nodes than the operator may query at a time."""
    names = [f"n{number:02}" for number in range(40)]
    others = PlayedOthers()
    pods = Pods(cast(PriorityWatch, PlayedPriorities()), cast(BookedWatch, Taken()), cast(OtherPods, others))
    watch = TurnWatch(cast(NodeWatch, SomeNodes(*names, "z")), lambda *_: None, pods=pods)
    idle = replace(holder("idle", 3600, z=1), gives={"z": gpus(1)})
    waits = replace(waiter("asked", devices=1), nodes=frozenset((*names, "z")), needs=gpus(1))
    others.held = {"z": gpus(foreign)}
    watch.turns(IDLE, [idle], NOW)
    watch.turns(ASKED, [waits], NOW)
    assert len(others.requested[-1]) == MOST_NODES
    assert "z" in others.requested[-1]
    found = watch.turns(IDLE, [idle], NOW).get("m", Turn())
    assert found.gives_way_to == gives_way


def test_cpu_model_yields_cpus_that_gpu_model_lacks() -> None:
    others = PlayedOthers()
    others.held = {"z": {}}
    pods = Pods(
        cast(PriorityWatch, PlayedPriorities()), cast(BookedWatch, AllCores()), cast(OtherPods, others)
    )
    watch = TurnWatch(cast(NodeWatch, SomeNodes("z")), lambda *_: None, pods=pods)
    watch.turns(IDLE, [on_cores("idle", 60, z=some(64))], NOW)
    waits = replace(waiter("asked"), nodes=frozenset("z"), needs={**gpus(1), **some(4)})
    turn = watch.turns(ASKED, [waits], NOW)["m"]
    assert turn.lacks == ("cpu",)
    found = watch.turns(IDLE, [on_cores("idle", 60, z=some(64))], NOW)
    assert found["m"].gives_way_to == "default/asked"


class AllCores:
    """Fake in which a workload's pods use all CPUs of a node."""

    def booked(self) -> Booked:
        return {"z": some(64)}
