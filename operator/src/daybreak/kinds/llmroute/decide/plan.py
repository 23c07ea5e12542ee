"""Plan for an LLMRoute's dedicated Service, from its desired and live state."""

from collections.abc import Sequence
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.owned import owned_metadata
from daybreak.api.llmroute.definition import LLMRoute
from daybreak.api.llmroute.resource import KIND
from daybreak.manifests.owner import NameHolder, Owner
from daybreak.manifests.plan import Live, Plan, Target, named
from daybreak.manifests.resources import OF_ROUTES
from daybreak.ray import network


def own_service(route: LLMRoute, port: int) -> dict[str, Any]:
    """Return the Service of the route's dedicated address, which leads to the route's gateway port."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(KIND, route, route.name, "front"),
        "spec": network.front(names.gateway_selector(), port),
    }


def objects(route: LLMRoute, port: int | None) -> list[dict[str, Any]]:
    """Return the objects of a route whose dedicated address has this port, or none if the port is None."""
    return [own_service(route, port)] if port is not None else []


def make_plan(owner: Owner, desired: Sequence[dict[str, Any]], live_objects: Live) -> Plan:
    """Return the plan for a route, from its desired and live objects."""
    targets, foreign, leaving = [], [], False
    for each in desired:
        live = live_objects.find(each)
        whose = owner.whose(live) if live is not None else None
        leaving |= whose is NameHolder.PREDECESSORS
        if whose is NameHolder.FOREIGN:
            foreign.append(named(each))
        targets.append(Target(each, live))
    surplus = live_objects.surplus(owner, OF_ROUTES, desired)
    return Plan(tuple(targets), tuple(surplus), tuple(foreign), leaving)
