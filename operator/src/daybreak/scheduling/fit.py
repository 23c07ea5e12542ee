"""Fit check: capacity of the nodes for the head and one replica of each model, before objects are created.

The check compares the total offer of the nodes (`allocatable`), their labels and taints, not the free
amounts. Used capacity may become free, but a missing GPU does not appear by waiting.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from daybreak.api.pods.pod_template import AUTOSCALER_CONTAINER
from daybreak.api.ray.model import Model, Parallelism
from daybreak.api.ray.runtime import Head
from daybreak.api.ray.workload import RayWorkload
from daybreak.api.schema.scalars import parse_quantity
from daybreak.scheduling import explain_unschedulable, pod_additions
from daybreak.scheduling.nodes import (
    Demand,
    Node,
    NodeCapacity,
    Terms,
    capacity,
    chosen,
    lets_in,
    places,
    times,
)
from daybreak.scheduling.replica_size import need_in_numbers, pods_per_replica, worker_need

AUTOSCALER_CPU = Decimal("0.1")
AUTOSCALER_MEMORY = Decimal(512 * 2**20)
"""Requests of Ray's autoscaler, a container of the head's pod, in addition to the head's.

A test compares these values with the builders.
"""
_REMEMBERED = 1000
"""Maximum number of demands whose results are kept while the nodes do not change."""


def of_models(model: Model) -> Terms:
    """Return the message terms of a kind whose spec has models."""
    pods = pods_per_replica(model)
    return Terms("a replica" if pods == 1 else f"each of the {pods} pods of a replica")


@dataclass(frozen=True)
class Misfit:
    """A part of a workload that fits on no node."""

    model: str | None
    """Name of the model or worker group, or None for the head."""
    message: str
    """The numbers and the nearest fix."""


class Question:
    """Fit check of one part of a workload: its head, or a replica of a model."""

    def __init__(self, model: Model | None, demand: Demand, pods: int = 1) -> None:
        self.model = model
        """The model, or None for the head."""
        self.demand = demand
        self.pods = pods
        """Number of such pods that must fit."""
        parallel = (model.parallelism.tensor, model.parallelism.pipeline) if model is not None else ()
        self.key: Any = (pods, parallel, demand.key)
        """Key that is equal for checks with the same result."""


@dataclass
class _Known:
    """The nodes in parsed form, with the results of checks, because many services need the same ones."""

    nodes: tuple[Node, ...]
    capacities: tuple[NodeCapacity, ...]
    answers: dict[Any, str] = field(default_factory=dict)


_last = _Known((), ())
"""Cache for the nodes of the last call. Callers pass the same tuple until a node changes."""


def fit(
    workload: RayWorkload,
    nodes: tuple[Node, ...],
    terms: Callable[[Model], Terms] = of_models,
    *,
    head: bool = True,
) -> tuple[Misfit, ...]:
    """Return the parts of a workload that fit on no node.

    The result is empty if a replica of every model fits, and the head if there is one.
    """
    found = []
    for question in questions(workload, terms, head=head):
        if wrong := answer(question, nodes):
            name = question.model.name if question.model is not None else None
            whose = "head" if name is None else f"{question.demand.terms.noun} {name}"
            found.append(Misfit(name, f"{whose}: {wrong}"))
    return tuple(found)


def questions(
    workload: RayWorkload, terms: Callable[[Model], Terms] = of_models, *, head: bool = True
) -> list[Question]:
    """Return the fit checks of a workload, with message terms by model; `head` is True if it has a head."""
    return [
        *([Question(None, _head(workload.runtime.head))] if head else []),
        *(Question(each, _demand(each, terms(each)), pods_per_replica(each)) for each in workload.models),
    ]


def answer(question: Question, nodes: tuple[Node, ...]) -> str:
    """Return why the pods do not fit. Empty if they do."""
    known = _read(nodes)
    if question.key not in known.answers:
        if len(known.answers) >= _REMEMBERED:
            known.answers.clear()
        known.answers[question.key] = _unknown(known.capacities, question)
    return known.answers[question.key]


def nodes_for(model: Model, nodes: tuple[Node, ...]) -> frozenset[str]:
    """Return the names of the nodes that would accept one of the model's worker pods if they were empty."""
    demand = _demand(model, of_models(model))
    known = chosen(_read(nodes).capacities, demand)
    return frozenset(each.name for each in known if lets_in(each, demand) and times(each, demand))


def needs(model: Model) -> Mapping[str, Decimal]:
    """Return the requests of one of the model's worker pods."""
    return _demand(model, of_models(model)).requests


def capacities(nodes: tuple[Node, ...]) -> tuple[NodeCapacity, ...]:
    """Return the offers of the nodes."""
    return _read(nodes).capacities


def _read(nodes: tuple[Node, ...]) -> _Known:
    global _last
    if _last.nodes is not nodes:
        _last = _Known(nodes, tuple(capacity(node) for node in nodes))
    return _last


def _unknown(capacities: Sequence[NodeCapacity], question: Question) -> str:
    model, demand, pods = question.model, question.demand, question.pods
    split = (lambda: _split(capacities, model, demand)) if model is not None else str
    wrong = explain_unschedulable.nowhere(capacities, demand, split)
    if wrong or pods == 1:
        return wrong
    room_for = places(capacities, demand)
    if room_for >= pods:
        return ""
    return explain_unschedulable.too_few(demand, pods, room_for)


def _head(head: Head) -> Demand:
    more = pod_additions.of(head.pod_template, "ray-head")
    autoscaler = _autoscaler(head)
    own = {
        "cpu": parse_quantity(head.resources.cpu) + autoscaler["cpu"],
        "memory": parse_quantity(head.resources.memory) + autoscaler["memory"],
    }
    own_fields = "spec.runtime.head"
    return Demand(
        Terms(
            "it",
            fields=own_fields,
            sizes=f"{own_fields}.resources.{{}}",
            template=f"{own_fields}.podTemplate",
        ),
        requests=more.requests(own),
        selector={**head.node_selector, **more.selector},
        tolerations=(*head.tolerations, *more.tolerations),
    )


def _autoscaler(head: Head) -> Mapping[str, Decimal]:
    """Return the requests of the autoscaler's container. A limit below Daybreak's request lowers it."""
    template = head.pod_template
    given = {} if template is None else template.container(AUTOSCALER_CONTAINER).get("resources", {})
    requests, limits = given.get("requests", {}), given.get("limits", {})
    amounts = {"cpu": AUTOSCALER_CPU, "memory": AUTOSCALER_MEMORY}
    for name, amount in amounts.items():
        if name in requests:
            amounts[name] = parse_quantity(str(requests[name]))
        elif name in limits:
            amounts[name] = min(amount, parse_quantity(str(limits[name])))
    return amounts


def _demand(model: Model, terms: Terms) -> Demand:
    need = worker_need(model)
    more = pod_additions.of(model.pod_template, terms.container)
    device = model.accelerator.resource
    return Demand(
        terms,
        requests=more.requests(need_in_numbers(need)),
        selector={**need.node_selector, **more.selector},
        tolerations=(*need.tolerations, *more.tolerations),
        device=device if device in need.requests else "",
    )


def _split(capacities: Sequence[NodeCapacity], model: Model, demand: Demand) -> str:
    """Return how the same accelerators could be spread over smaller nodes."""
    if demand.terms.apart is None:
        return _stages(capacities, model)
    most = max(int(each.offer(demand.device)) for each in chosen(capacities, demand))
    return next((each.how for each in demand.terms.apart if each.devices <= most), "")


def _stages(capacities: Sequence[NodeCapacity], model: Model) -> str:
    """Return the minimum number of pipeline stages that fits, as advice."""
    total = model.parallelism.tensor * model.parallelism.pipeline
    for tensor in range(total - 1, 0, -1):
        if total % tensor:
            continue
        spread = Parallelism(tensor=tensor, pipeline=total // tensor)
        other = model.model_copy(update={"parallelism": spread, "placement": None})
        if places(capacities, _demand(other, of_models(other))) < pods_per_replica(other):
            continue
        if spread == model.parallelism:
            return "use placement: PACK, which gives each pipeline stage a separate pod"
        return f"use parallelism pipeline: {spread.pipeline} with tensor: {spread.tensor}"
    return ""
