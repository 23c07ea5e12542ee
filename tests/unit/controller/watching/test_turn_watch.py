"""Turns among workloads, as each is observed by itself."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any, cast

import pytest

from daybreak.controller.watching import turn_watch
from daybreak.controller.watching.node_watch import NodeWatch
from daybreak.controller.watching.turn_watch import TOLD_SECONDS, TurnWatch, Workload
from daybreak.kube.watching.cache import Key
from daybreak.scheduling.turns import Claim, Turn, turns
from tests.unit.scheduling.test_turns import NOW, holder, waiter

IDLE, ASKED = Workload("LLMService", Key("default", "idle")), Workload("LLMService", Key("default", "asked"))


class NoNodes:
    """Nodes that nobody may read."""

    def nodes(self) -> None:
        return None


@pytest.mark.parametrize(("node_wait", "gives_way"), [(0, "default/asked"), (30, "default/asked"), (90, "")])
def test_others_give_way_once_nodes_have_been_waited_for(node_wait: int, gives_way: str) -> None:
    looked_at: list[Workload] = []
    watch = TurnWatch(
        cast(NodeWatch, NoNodes()), lambda each, _: looked_at.append(each), timedelta(seconds=node_wait)
    )
    watch.turns(IDLE, [holder("idle", 3600, a=1)], NOW)
    turns = watch.turns(ASKED, [waiter("asked", waited=60)], NOW)
    assert looked_at == ([IDLE] if gives_way else [])
    assert turns["m"].look_again is not None
    found = watch.turns(IDLE, [holder("idle", 3600, a=1)], NOW)
    assert (found["m"].gives_way_to if found else "") == gives_way


def test_a_start_beside_many_that_wait_does_not_have_all_of_them_looked_at_before_it_goes_on() -> None:
    """That somebody more holds what they wait for is told to them, and changes nothing of what they do."""
    looked_at: dict[str, float] = {}
    watch = TurnWatch(
        cast(NodeWatch, NoNodes()), lambda each, after: looked_at.update({each.key.name: after})
    )
    for number in range(20):
        name = f"w{number:02}"
        watch.turns(Workload("LLMService", Key("default", name)), [waiter(name, waited=60 - number)], NOW)
    looked_at.clear()
    watch.turns(ASKED, [holder("asked", None, a=1)], NOW)
    assert len(looked_at) == 20
    assert looked_at.pop("w00") == 0, "it waits for somebody now"
    assert all(0 < after <= TOLD_SECONDS for after in looked_at.values())
    looked_at.clear()
    watch.turns(Workload("LLMService", Key("default", "w00")), [], NOW)
    assert looked_at.pop("w01") == 0, "it comes first now"
    assert all(0 < after <= TOLD_SECONDS for after in looked_at.values())


def test_a_time_that_is_told_a_little_differently_is_no_reason_to_decide_anew(
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
