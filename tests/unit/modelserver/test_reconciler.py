"""Input of one reconcile's decision on a ModelServer, in addition to the observation."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest

from daybreak.api.modelserver.resource import MODEL_SERVERS
from daybreak.kinds.modelserver.decide.view import View
from daybreak.kinds.modelserver.functions import FUNCTIONS
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kinds.modelserver.observe.observer import Observer
from daybreak.kube.watching.cache import Cache
from daybreak.loop.reconciler import Reconciler
from daybreak.manifests.keys import Key
from daybreak.manifests.plan import Live, Plan
from daybreak.manifests.resources import OF_SERVERS
from daybreak.problems.problem import Problem
from tests.parts import parts
from tests.unit.controller.asking.test_other_pods import PlayedApi, on, other
from tests.unit.llmservice.decide.scenes.services import node
from tests.unit.modelserver.servers import PLATFORM, observe

ONE = Key("default", "chat")
GPU = observe(spec={"accelerator": {"kind": "gpu"}})


class Decides(Exception):
    """Raised when the reconciler reaches its decision."""

    def __init__(self, observed: Observed) -> None:
        self.observed = observed


class Stops(Reconciler[Observed, View, Plan]):
    """A reconciler without objects."""

    def objects(self, observed: Observed) -> Sequence[dict[str, Any]]:
        return ()

    def plan(self, observed: Observed, desired: Sequence[dict[str, Any]], live: Live) -> Plan:
        return Plan((), (), (), leaving=False)


def stop(observed: Observed, blocked: Problem | None) -> View:
    """Stop at the decision."""
    raise Decides(observed)


class Sees:
    """An observer with a given observation."""

    resource = MODEL_SERVERS

    def __init__(self, observed: Observed) -> None:
        self.observed = observed

    def owner(self, key: Key) -> Key:
        return key

    def observe(self, _: Key) -> Observed:
        return self.observed


async def decided_on(what: Observed, api: PlayedApi) -> Observed:
    """Return the input of the decision after this observation."""
    around, observer = parts(Cache(), SimpleNamespace(), PLATFORM, api), cast(Observer, Sees(what))
    one = Stops(around, observer, replace(FUNCTIONS, view=stop), OF_SERVERS)
    with pytest.raises(Decides) as stopped:
        await one.reconcile(ONE)
    return stopped.value.observed


async def test_change_that_may_need_capacity_counts_pods_of_others() -> None:
    nodes = (node("a", gpus=2), node("b", gpus=0))
    api = PlayedApi(a=[on("a", other(1))], b=[on("b", other(0))])
    changing = replace(GPU, nodes=nodes, booked={"a": {"nvidia.com/gpu": Decimal(1)}})
    found = await decided_on(changing, api)
    assert found.booked is not None
    assert found.booked["a"]["nvidia.com/gpu"] == 2
    assert api.requested == ["a"], "no accelerator of its kind is on the other node"


async def test_pods_of_others_are_not_listed_without_a_change() -> None:
    api = PlayedApi()
    assert (await decided_on(replace(GPU, nodes=(node("a", gpus=2),)), api)).booked is None
    assert api.requested == []
