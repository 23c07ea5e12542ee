"""Turns among workloads, as each is observed by itself."""

from datetime import timedelta
from typing import cast

import pytest

from daybreak.controller.watching.node_watch import NodeWatch
from daybreak.controller.watching.turn_watch import TurnWatch, Workload
from daybreak.kube.watching.cache import Key
from tests.unit.scheduling.test_turns import NOW, holder, waiter

IDLE, ASKED = Workload("LLMService", Key("default", "idle")), Workload("LLMService", Key("default", "asked"))


class NoNodes:
    """Nodes that nobody may read."""

    def nodes(self) -> None:
        return None


@pytest.mark.parametrize(("node_wait", "gives_way"), [(0, "default/asked"), (30, "default/asked"), (90, "")])
def test_others_give_way_once_nodes_have_been_waited_for(node_wait: int, gives_way: str) -> None:
    looked_at: list[Workload] = []
    watch = TurnWatch(cast(NodeWatch, NoNodes()), looked_at.append, timedelta(seconds=node_wait))
    watch.turns(IDLE, [holder("idle", 3600, a=1)], NOW)
    turns = watch.turns(ASKED, [waiter("asked", waited=60)], NOW)
    assert looked_at == ([IDLE] if gives_way else [])
    assert turns["m"].look_again is not None
    found = watch.turns(IDLE, [holder("idle", 3600, a=1)], NOW)
    assert (found["m"].gives_way_to if found else "") == gives_way
