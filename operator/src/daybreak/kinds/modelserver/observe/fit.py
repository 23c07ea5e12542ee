"""Fit check of a ModelServer: its questions about the nodes, and the terms of its messages."""

from collections.abc import Callable
from dataclasses import replace

from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.validation import ENGINE_CONTAINER
from daybreak.api.ray.model import Model
from daybreak.scheduling import fit, room
from daybreak.scheduling.fit import Misfit, Question
from daybreak.scheduling.nodes import Node, Split, Terms


def questions(server: ModelServer) -> list[Question]:
    """Return the fit check's questions about the nodes."""
    return fit.questions(server.workload, _terms(server), head=False)


def misfits(server: ModelServer, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
    """Return the pods of a replica that fit on no node."""
    return fit.fit(server.workload, nodes, _terms(server), head=False)


def crowded(server: ModelServer, nodes: tuple[Node, ...], booked: room.Booked) -> str:
    """Return why there is no capacity for one more replica now; empty if there is."""
    one_more = {server.model.name: 1}
    return room.crowded(server.workload, one_more, nodes, booked, _terms(server), head=False)


def _terms(server: ModelServer) -> Callable[[Model], Terms]:
    """Return the terms of messages, and the other ways to spread a replica over nodes."""
    total = server.spec.parallelism.tensor * server.spec.parallelism.pipeline
    more = range(server.spec.nodes + 1, total + 1) if server.profile.distributed is not None else ()
    apart = tuple(Split(total // each, f"set nodes: {each}") for each in more if total % each == 0)

    def terms(model: Model) -> Terms:
        own = fit.of_models(model)
        return replace(own, fewer_pods="lower nodes", apart=apart, container=ENGINE_CONTAINER)

    return terms
