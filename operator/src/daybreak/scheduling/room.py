"""Free capacity for a second copy of a workload alongside all current pods.

The scheduler knows more, such as quotas and volumes: its result takes precedence.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal

from daybreak.api.ray.model import Model
from daybreak.api.ray.workload import RayWorkload
from daybreak.scheduling.fit import Question, capacities, nodes_for, of_models, questions
from daybreak.scheduling.nodes import Demand, Node, NodeCapacity, Terms, lets_in
from daybreak.scheduling.replica_size import accelerators_per_pod

Booked = Mapping[str, Mapping[str, Decimal]]
"""Amounts that pods hold of each resource in base units, by node."""


def places(workload: RayWorkload, nodes: tuple[Node, ...]) -> frozenset[str]:
    """Return the names of the nodes on which pods of the workload with accelerators may run."""
    scarce = [model for model in workload.models if accelerators_per_pod(model)]
    return frozenset[str]().union(*(nodes_for(model, nodes) for model in scarce))


def crowded(
    workload: RayWorkload,
    replicas: Mapping[str, int],
    nodes: tuple[Node, ...],
    booked: Booked,
    terms: Callable[[Model], Terms] = of_models,
    *,
    head: bool = True,
) -> str:
    """Return why a second copy of the workload does not fit, with the numbers. Empty if it fits.

    Args:
        workload: The workload of the copy.
        replicas: Number of replicas of each model.
        nodes: The nodes.
        booked: Amounts that are in use on them.
        terms: Returns the message terms of a model.
        head: True if the copy includes a head.
    """
    places = capacities(nodes)
    free = {
        each.name: {
            resource: amount - booked.get(each.name, {}).get(resource, Decimal(0))
            for resource, amount in each.offers.items()
        }
        for each in places
    }
    for question, pods in _largest_first(workload, replicas, terms):
        if question.model is None and not head:
            continue
        for number in range(pods):
            node = _place(question.demand, places, free)
            if node is None:
                return _words(question, pods, number, places, free)
            for resource, amount in question.demand.requests.items():
                free[node][resource] -= amount
    return ""


def _largest_first(
    workload: RayWorkload, replicas: Mapping[str, int], terms: Callable[[Model], Terms]
) -> list[tuple[Question, int]]:
    found = [
        (question, 1 if question.model is None else question.pods * replicas.get(question.model.name, 1))
        for question in questions(workload, terms)
    ]
    return sorted(found, key=lambda each: _size(each[0].demand), reverse=True)


def _size(demand: Demand) -> tuple[Decimal, Decimal]:
    return Decimal(demand.devices), demand.requests.get("cpu", Decimal(0))


def _place(
    demand: Demand, places: tuple[NodeCapacity, ...], free: Mapping[str, Mapping[str, Decimal]]
) -> str | None:
    """Return the node with the least spare capacity that accepts the pod now, or None if there is none."""

    def left(node: str) -> tuple[Decimal, Decimal]:
        own = free[node]
        return own.get(demand.device, Decimal(0)), own.get("cpu", Decimal(0))

    takes = [each.name for each in _allowed(demand, places) if _fits(demand, free[each.name])]
    return min(takes, key=left, default=None)


def _allowed(demand: Demand, places: tuple[NodeCapacity, ...]) -> list[NodeCapacity]:
    desired = demand.selector.items()
    return [
        each
        for each in places
        if all(each.labels.get(key) == value for key, value in desired) and lets_in(each, demand)
    ]


def _fits(demand: Demand, free: Mapping[str, Decimal]) -> bool:
    return all(free.get(resource, Decimal(0)) >= amount for resource, amount in demand.requests.items())


def _words(
    question: Question,
    pods: int,
    placed: int,
    places: tuple[NodeCapacity, ...],
    free: Mapping[str, Mapping[str, Decimal]],
) -> str:
    demand = question.demand
    named = "" if question.model is None else f"{demand.terms.noun} {question.model.name}"
    whose = named or "its head"
    scarce = demand.device or _scarce(demand, places, free)
    most = max((free[each.name].get(scarce, Decimal(0)) for each in _allowed(demand, places)), default=None)
    if most is None:
        return f"{whose} needs {pods} pods, and no node takes them"
    unit = "cores" if scarce == "cpu" else "bytes of memory" if scarce == "memory" else scarce
    have = f"at most {max(most, Decimal(0)).normalize():f} are free on one node"
    more = f", after {placed} of {pods} pods" if placed else ""
    return f"{whose} needs {demand.requests[scarce].normalize():f} {unit} for a pod, and {have}{more}"


def _scarce(
    demand: Demand, places: tuple[NodeCapacity, ...], free: Mapping[str, Mapping[str, Decimal]]
) -> str:
    """Return the resource that is sufficient on the fewest nodes."""
    allowed = _allowed(demand, places)
    return min(
        demand.requests,
        key=lambda resource: sum(
            free[each.name].get(resource, Decimal(0)) >= demand.requests[resource] for each in allowed
        ),
    )
