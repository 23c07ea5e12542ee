"""What an LLMRoute's own Service should be, beside what it is."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.common.owned import owned_metadata
from daybreak.api.llmroute.definition import LLMRoute
from daybreak.api.llmroute.resource import KIND, LLM_ROUTES
from daybreak.controller.plan import Owner, Plan, Target, Whose, named
from daybreak.kube.resources import OF_ROUTES
from daybreak.kube.watching.cache import Cache, Key
from daybreak.kube.writing.apply import Applier
from daybreak.ray import network


def own_service(route: LLMRoute, port: int) -> dict[str, Any]:
    """The Service that is the route's own address: it leads to the gateway's port for it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(KIND, route, route.name, "front"),
        "spec": network.front(names.gateway_selector(), port),
    }


async def make_plan(route: LLMRoute, port: int | None, cache: Cache, applier: Applier) -> Plan:
    """The plan for a route whose own address has this port; None: it is to have none."""
    owner = Owner(LLM_ROUTES, Key(route.namespace, route.name), route.uid)
    wanted: list[dict[str, Any]] = [own_service(route, port)] if port is not None else []
    targets, foreign, leaving = [], [], False
    for each in wanted:
        live = await applier.live(each)
        whose = owner.whose(live) if live is not None else None
        leaving |= whose is Whose.PREDECESSORS
        if whose is Whose.FOREIGN:
            foreign.append(named(each))
        targets.append(Target(each, live))
    surplus = owner.surplus(cache, OF_ROUTES, wanted)
    return Plan(tuple(targets), tuple(surplus), tuple(foreign), leaving)
