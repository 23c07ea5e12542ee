"""What is asked of the nodes for a ModelServer, and in whose words the answer is told."""

from collections.abc import Callable
from dataclasses import replace

from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.validation import ENGINE_CONTAINER
from daybreak.api.ray.model import Model
from daybreak.scheduling import fit, room
from daybreak.scheduling.fit import Misfit, Question
from daybreak.scheduling.nodes import Apart, Node, Terms


def questions(server: ModelServer) -> list[Question]:
    """What is asked of the nodes."""
    return fit.questions(server.workload, _terms(server), head=False)


def misfits(server: ModelServer, nodes: tuple[Node, ...]) -> tuple[Misfit, ...]:
    """What of it fits on no node: the pods of a replica."""
    return fit.fit(server.workload, nodes, _terms(server), head=False)


def crowded(server: ModelServer, nodes: tuple[Node, ...], booked: room.Booked) -> str:
    """Why there is no room now for one replica more; empty when there is."""
    one_more = {server.model.name: 1}
    return room.crowded(server.workload, one_more, nodes, booked, _terms(server), head=False)


def _terms(server: ModelServer) -> Callable[[Model], Terms]:
    """In whose words it is told, and how else a replica could be spread."""
    total = server.spec.parallelism.tensor * server.spec.parallelism.pipeline
    more = range(server.spec.nodes + 1, total + 1) if server.profile.distributed is not None else ()
    apart = tuple(Apart(total // each, f"set nodes: {each}") for each in more if total % each == 0)

    def terms(model: Model) -> Terms:
        own = fit.of_models(model)
        return replace(own, fewer_pods="lower nodes", apart=apart, container=ENGINE_CONTAINER)

    return terms
